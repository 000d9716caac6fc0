-- How many messages of each topic are dead: of the topics in $1 and of as many others as fit into $2, those with most
-- of them first; then of all topics. It reads the parked rows once, as the count of the backlog does.
WITH dead AS (SELECT topic, count(*) AS messages FROM {schema}.outbox_parked WHERE dead_at IS NOT NULL GROUP BY topic)
(SELECT topic, messages FROM dead ORDER BY topic = ANY ($1::text[]) DESC, messages DESC, topic COLLATE "C" LIMIT $2)
UNION ALL
(SELECT NULL, coalesce(sum(messages), 0)::bigint FROM dead)
