-- The documents. A deleted one leaves its row, so that its version is known for good and a deletion has an identity of its own.
CREATE TABLE IF NOT EXISTS documents (
    id         text PRIMARY KEY CHECK (octet_length(id) BETWEEN 1 AND 300),
    version    bigint NOT NULL, -- of the last event of its stream
    title      text NOT NULL,
    body       text NOT NULL,
    deleted_at timestamptz
);
