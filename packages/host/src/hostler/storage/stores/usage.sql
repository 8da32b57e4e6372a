-- Use and cost of runs, summed.

-- name: by_agent
-- Runs created in [since, until), by agent and day (UTC). Cost is summed as a floating number: a report. A sum of
-- tokens stops at the largest number of the protocol, where a plain one would overflow; NULL where no run has one.
WITH used AS (
    SELECT agent_name, created_at / 86400000 AS day, status, cast(cost AS double precision) AS cost,
           cast(json_extract(usage, '$.input_tokens') AS bigint) AS input_tokens,
           cast(json_extract(usage, '$.output_tokens') AS bigint) AS output_tokens,
           cast(json_extract(usage, '$.total_tokens') AS bigint) AS total_tokens,
           cast(json_extract(usage, '$.cached_tokens') AS bigint) AS cached_tokens
    FROM runs
    WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
      AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
)
SELECT agent_name, day, count(*) AS runs,
       sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN status IN ('failed', 'timeout') THEN 1 ELSE 0 END) AS failed,
       CASE WHEN count(input_tokens) > 0
            THEN cast(min(total(input_tokens), 9007199254740991) AS bigint) END AS input_tokens,
       CASE WHEN count(output_tokens) > 0
            THEN cast(min(total(output_tokens), 9007199254740991) AS bigint) END AS output_tokens,
       CASE WHEN count(total_tokens) > 0
            THEN cast(min(total(total_tokens), 9007199254740991) AS bigint) END AS total_tokens,
       CASE WHEN count(cached_tokens) > 0
            THEN cast(min(total(cached_tokens), 9007199254740991) AS bigint) END AS cached_tokens,
       sum(cost) AS cost
FROM used GROUP BY agent_name, day ORDER BY day DESC, agent_name LIMIT :limit

-- name: by_agent (postgres)
WITH used AS (
    SELECT agent_name, created_at / 86400000 AS day, status, cast(cost AS double precision) AS cost,
           cast(cast(usage AS jsonb) ->> 'input_tokens' AS bigint) AS input_tokens,
           cast(cast(usage AS jsonb) ->> 'output_tokens' AS bigint) AS output_tokens,
           cast(cast(usage AS jsonb) ->> 'total_tokens' AS bigint) AS total_tokens,
           cast(cast(usage AS jsonb) ->> 'cached_tokens' AS bigint) AS cached_tokens
    FROM runs
    WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
      AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
)
SELECT agent_name, day, count(*) AS runs,
       sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN status IN ('failed', 'timeout') THEN 1 ELSE 0 END) AS failed,
       CASE WHEN count(input_tokens) > 0
            THEN cast(least(sum(input_tokens), 9007199254740991) AS bigint) END AS input_tokens,
       CASE WHEN count(output_tokens) > 0
            THEN cast(least(sum(output_tokens), 9007199254740991) AS bigint) END AS output_tokens,
       CASE WHEN count(total_tokens) > 0
            THEN cast(least(sum(total_tokens), 9007199254740991) AS bigint) END AS total_tokens,
       CASE WHEN count(cached_tokens) > 0
            THEN cast(least(sum(cached_tokens), 9007199254740991) AS bigint) END AS cached_tokens,
       sum(cost) AS cost
FROM used GROUP BY agent_name, day ORDER BY day DESC, agent_name LIMIT :limit

-- name: open_runs
-- Runs that are not over, by status, of all workspaces: for metrics.
SELECT status, count(*) AS runs FROM runs
WHERE status IN ('queued', 'claimed', 'running', 'paused') GROUP BY status
