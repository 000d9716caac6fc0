-- query: Advancing
SELECT set_config('synchronous_commit', 'off', true),
-- include: planning

-- query: Prove
-- Proves as far as it can now (proof) up to where all sequences are decided, and tells whether
-- that is worth to be stored: Advance does that.
--
-- Rows up to there are read by a later statement: this one's snapshot is older than its look
-- at the locks. The setting tells it to those that follow in this session, and ends with it:
-- what was proven is forgotten only by a crash of the server, which ends every session.
-- include: proof
-- include: told

-- query: Advance
-- Stores what can be proven now (proof), if that is worth it.
--
-- Many workers may do this at once: each proves by itself, and none waits for
-- another. Who finds the row locked or changed keeps what it has proven to itself, and
-- so does who has come less than @apart further.
-- include: proof
   , free AS MATERIALIZED (
       SELECT w.id
         FROM {schema}.outbox_watermark AS w, seen
        WHERE w.id
          AND w.updated_at = seen.updated_at
          AND seen.worth
          FOR NO KEY UPDATE OF w SKIP LOCKED),
     moved AS (
       UPDATE {schema}.outbox_watermark AS w
          SET safe_sequence = n.safe,
              candidate     = CASE n.note WHEN 'new' THEN n.highest WHEN 'kept' THEN n.candidate END,
              candidate_at  = CASE n.note WHEN 'new' THEN clock_timestamp() WHEN 'kept' THEN least(n.candidate_at, clock_timestamp()) END,
              holders       = CASE n.note WHEN 'new' THEN n.writers WHEN 'kept' THEN n.still END,
              updated_at    = clock_timestamp()
         FROM seen AS n, free
        WHERE w.id = free.id)
-- include: told

-- fragment: proof
-- How far the watermark is proven now (ADR 11).
--
-- A sequence up to the highest visible one was drawn before this snapshot, by a
-- transaction that had locked the table before it drew. That transaction is among
-- the writers found here, or it has ended and all it wrote is visible to any later
-- snapshot. So: without writers everything up to the highest is decided; with
-- writers, everything up to the first gap; and beyond it what was the highest when
-- the candidate was noted, once all writers of that time have ended.
--
-- Where every sequence between what was proven and the highest is visible, they are decided, and
-- the locks, half of the cost, are not looked at.
--
-- A transaction that is prepared keeps its virtual id, which names it until it has
-- ended. One that the server recovered at its start has a new name, -1/xid: the old
-- one may be what a candidate waits for. So while there is such a writer no
-- candidate is settled. None comes while the server runs, and whatever lies above
-- its gap waits for it anyway. Before PostgreSQL 14.1 all have such names.
--
-- OFFSET 0 has each step computed once; to store it for that, as a materialized one is, costs a tenth of a look.
WITH RECURSIVE leaves (relid) AS (
-- include: leaves
       ),
     state AS (
       SELECT w.safe_sequence, w.candidate, w.candidate_at, w.holders, w.updated_at,
              greatest(w.safe_sequence, nullif(current_setting('{safe}', true), '')::bigint) AS known,
              (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e) AS highest
         FROM {schema}.outbox_watermark AS w
        WHERE w.id),
     visible AS (
       SELECT CASE WHEN s.highest - s.known <= 100
                   THEN (SELECT count(*) FROM {events} AS e WHERE e.sequence > s.known AND e.sequence <= s.highest) >= s.highest - s.known
                   ELSE false END AS whole
         FROM state AS s),
     writers AS (
       SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS holders,
              coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false) AS recovered
         FROM pg_locks AS l
        WHERE NOT (SELECT whole FROM visible)
          AND
-- include: writing
          AND l.relation IN (SELECT relid FROM leaves)
          AND l.pid IS DISTINCT FROM pg_backend_pid()),
     remaining AS (
       SELECT s.*, v.whole, w.holders AS writers, w.recovered,
              ARRAY(SELECT unnest(s.holders) INTERSECT SELECT unnest(w.holders)) AS still
         FROM state AS s, visible AS v, writers AS w
       OFFSET 0),
     proven AS (
       SELECT r.*,
              CASE WHEN r.candidate IS NOT NULL AND r.still = '{}' AND NOT r.recovered
                   THEN greatest(r.candidate, r.known) ELSE r.known END AS base
         FROM remaining AS r
       OFFSET 0),
     decided AS (
       SELECT p.*,
              CASE WHEN p.highest <= p.known    THEN p.known
                   WHEN p.whole                 THEN p.highest
                   WHEN p.writers = '{}'        THEN p.highest
                   ELSE coalesce((SELECT max(n.sequence)
                                    FROM (SELECT e.sequence, row_number() OVER (ORDER BY e.sequence) AS nth
                                            FROM {events} AS e
                                           WHERE e.sequence > p.base
                                           ORDER BY e.sequence
                                           LIMIT 10000) AS n
                                   WHERE n.sequence = p.base + n.nth), p.base) END AS safe
         FROM proven AS p
       OFFSET 0),
     noted AS (
       SELECT d.*,
              CASE WHEN d.safe >= d.highest  THEN 'none'
                   WHEN d.candidate > d.safe THEN 'kept'
                   ELSE 'new' END AS note
         FROM decided AS d
       OFFSET 0),
     seen AS (
       SELECT n.*,
              n.safe >= n.safe_sequence + @apart::int
              OR n.note = 'new'
              OR n.note = 'none' AND n.candidate IS NOT NULL
              OR n.note = 'kept' AND (cardinality(n.still) < cardinality(n.holders) OR n.candidate_at > clock_timestamp()) AS worth
         FROM noted AS n
       OFFSET 0)

-- query: Writers
-- The highest sequence that is visible, the watermark, and the transactions that
-- hold a lock which a writer of events holds. All that was drawn up to then is
-- decided when these have ended, by name; but nothing while there is a prepared one
-- that the server recovered, for that has another name than before (proof).
WITH RECURSIVE leaves (relid) AS (
-- include: leaves
       )
SELECT (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       (SELECT w.safe_sequence FROM {schema}.outbox_watermark AS w),
       coalesce(array_agg(DISTINCT l.virtualtransaction), '{}'),
       coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false)
  FROM pg_locks AS l
 WHERE
-- include: writing
   AND l.relation IN (SELECT relid FROM leaves)
   AND l.pid IS DISTINCT FROM pg_backend_pid()

-- query: Watermark
-- Where the watermark stands, and which transactions hold it back: those that the
-- candidate waits for, recovered ones (proof), and, as long as there is any of
-- these, others that have been open for a second: they hold back what comes next.
-- Without pg_read_all_stats only the process ids of other roles' sessions are known,
-- and none of those others.
SELECT w.safe_sequence,
       (SELECT coalesce(max(e.sequence), 0) FROM {events} AS e),
       coalesce(clock_timestamp() - CASE WHEN isfinite(w.candidate_at) THEN w.candidate_at END, interval '0'),
       h.pid, h.application_name, h.state, coalesce(clock_timestamp() - coalesce(h.xact_start, h.prepared_at), interval '0'), h.gid
  FROM {schema}.outbox_watermark AS w
  LEFT JOIN LATERAL (
         SELECT DISTINCT n.pid, n.application_name, n.state, n.xact_start, n.gid, n.prepared_at
           FROM (SELECT l.pid, a.application_name, a.state, a.xact_start, p.gid, p.prepared AS prepared_at,
                        l.virtualtransaction = ANY (w.holders) OR l.virtualtransaction LIKE '-1/%' AS awaited,
                        bool_or(l.virtualtransaction = ANY (w.holders) OR l.virtualtransaction LIKE '-1/%') OVER () AS any_awaited
                   FROM pg_locks AS l
                   LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
                   -- A prepared transaction's own id is known by the lock that it holds on that.
                   LEFT JOIN pg_locks AS x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.granted
                                          AND x.virtualtransaction = l.virtualtransaction
                   LEFT JOIN pg_prepared_xacts AS p ON p.transaction = x.transactionid
                  WHERE w.candidate IS NOT NULL
                    AND
-- include: writing
                    AND l.relation IN (WITH RECURSIVE leaves (relid) AS (
-- include: leaves
                                              )
                                       SELECT relid FROM leaves)) AS n
          WHERE n.awaited
             OR n.any_awaited AND coalesce(n.xact_start, n.prepared_at) NOT BETWEEN clock_timestamp() - interval '1 second' AND clock_timestamp()) AS h ON true
 WHERE w.id
 ORDER BY coalesce(h.xact_start, h.prepared_at) NULLS LAST, h.pid

-- fragment: told
SELECT safe, highest, worth, set_config('{safe}', safe::text, false) FROM seen

-- fragment: leaves
       SELECT @relation::text::regclass::oid
        UNION ALL
       SELECT i.inhrelid FROM pg_inherits AS i JOIN leaves ON i.inhparent = leaves.relid

-- fragment: writing
          l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
