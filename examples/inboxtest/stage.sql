-- What consumers leave behind, in the order of their effects.
CREATE TABLE IF NOT EXISTS inboxtest_effects (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream   text   NOT NULL,
    version  bigint NOT NULL,
    event_id uuid   NOT NULL
);

-- Events whose effects fail, and those whose effects wait until the lock of their number is free.
CREATE TABLE IF NOT EXISTS inboxtest_faults (event_id uuid PRIMARY KEY);
CREATE TABLE IF NOT EXISTS inboxtest_holds (event_id uuid PRIMARY KEY, number integer NOT NULL);

-- For the broken consumers, which remember by themselves.
CREATE TABLE IF NOT EXISTS inboxtest_seen (
    consumer text NOT NULL, event_id uuid NOT NULL, generation bigint NOT NULL, stream text NOT NULL, version bigint NOT NULL,
    partition bigint NOT NULL, sequence bigint NOT NULL, PRIMARY KEY (consumer, event_id, generation)
);

CREATE OR REPLACE FUNCTION inboxtest_effect(of_stream text, of_version bigint, of_event uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO inboxtest_effects (stream, version, event_id) VALUES (of_stream, of_version, of_event);
    PERFORM pg_advisory_xact_lock_shared(h.number) FROM inboxtest_holds AS h WHERE h.event_id = of_event;
    RETURN EXISTS (SELECT FROM inboxtest_faults AS f WHERE f.event_id = of_event);
END
$$;
