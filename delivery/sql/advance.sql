-- Moves the watermark as far as is proven now (ADR 11), and tells where it stands. Rows up
-- to it are read by a later statement: this one's snapshot is older than its look
-- at the locks. The setting tells it to those that follow in this session.
--
-- A sequence up to the highest visible one was drawn before this snapshot, by a
-- transaction that had locked the table before it drew. That transaction is among
-- the writers found here, or it has ended and all it wrote is visible to any later
-- snapshot. So: without writers everything up to the highest is decided; with
-- writers, everything up to the first gap; and beyond it what was the highest when
-- the candidate was noted, once all writers of that time have ended.
--
-- A transaction that is prepared keeps its virtual id, which names it until it has
-- ended. One that the server recovered at its start has a new name, -1/xid: the old
-- one may be what a candidate waits for. So while there is such a writer no
-- candidate is settled. None comes while the server runs, and whatever lies above
-- its gap waits for it anyway. Before PostgreSQL 14.1 all have such names.
--
-- Many workers may do this at once: each proves by itself, and none waits for
-- another. Who finds the row locked or changed keeps what it has proven to itself.
WITH RECURSIVE leaves (relid) AS (
       SELECT $1::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid),
     state AS MATERIALIZED (
       SELECT w.safe_sequence, w.candidate, w.candidate_at, w.holders, w.updated_at,
              (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e) AS highest
         FROM {schema}.outbox_watermark AS w
        WHERE w.id),
     writers AS MATERIALIZED (
       SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS holders,
              coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false) AS recovered
         FROM pg_locks AS l
        WHERE (SELECT highest > safe_sequence FROM state)
          AND l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND l.relation IN (SELECT relid FROM leaves)
          AND l.pid IS DISTINCT FROM pg_backend_pid()),
     remaining AS MATERIALIZED (
       SELECT s.*, w.holders AS writers, w.recovered,
              ARRAY(SELECT unnest(s.holders) INTERSECT SELECT unnest(w.holders)) AS still
         FROM state AS s, writers AS w),
     proven AS MATERIALIZED (
       SELECT r.*,
              CASE WHEN r.candidate IS NOT NULL AND r.still = '{}' AND NOT r.recovered
                   THEN greatest(r.candidate, r.safe_sequence) ELSE r.safe_sequence END AS base
         FROM remaining AS r),
     decided AS MATERIALIZED (
       SELECT p.*,
              CASE WHEN p.highest <= p.safe_sequence THEN p.safe_sequence
                   WHEN p.writers = '{}'             THEN p.highest
                   ELSE coalesce((SELECT max(n.sequence)
                                    FROM (SELECT e.sequence, row_number() OVER (ORDER BY e.sequence) AS nth
                                            FROM {events} AS e
                                           WHERE e.sequence > p.base
                                           ORDER BY e.sequence
                                           LIMIT 10000) AS n
                                   WHERE n.sequence = p.base + n.nth), p.base) END AS safe
         FROM proven AS p),
     noted AS MATERIALIZED (
       SELECT d.*,
              CASE WHEN d.safe >= d.highest  THEN 'none'
                   WHEN d.candidate > d.safe THEN 'kept'
                   ELSE 'new' END AS note
         FROM decided AS d),
     free AS MATERIALIZED (
       SELECT w.id
         FROM {schema}.outbox_watermark AS w, noted AS n
        WHERE w.id
          AND w.updated_at = n.updated_at
          AND (n.safe > n.safe_sequence
               OR n.note = 'new'
               OR n.note = 'none' AND n.candidate IS NOT NULL
               OR n.note = 'kept' AND cardinality(n.still) < cardinality(n.holders))
          FOR NO KEY UPDATE OF w SKIP LOCKED),
     moved AS (
       UPDATE {schema}.outbox_watermark AS w
          SET safe_sequence = n.safe,
              candidate     = CASE n.note WHEN 'new' THEN n.highest WHEN 'kept' THEN n.candidate END,
              candidate_at  = CASE n.note WHEN 'new' THEN clock_timestamp() WHEN 'kept' THEN n.candidate_at END,
              holders       = CASE n.note WHEN 'new' THEN n.writers WHEN 'kept' THEN n.still END,
              updated_at    = clock_timestamp()
         FROM noted AS n, free
        WHERE w.id = free.id)
SELECT safe, highest, set_config('postrider.safe', safe::text, false) FROM noted
