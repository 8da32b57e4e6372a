-- Use and cost of runs, summed.

-- name: by_agent
-- Runs created in [since, until), by agent and day (UTC). Cost is summed as a floating number: a report.
SELECT agent_name, created_at / 86400000 AS day, count(*) AS runs,
       sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN status IN ('failed', 'timeout') THEN 1 ELSE 0 END) AS failed,
       sum(cast(json_extract(usage, '$.input_tokens') AS bigint)) AS input_tokens,
       sum(cast(json_extract(usage, '$.output_tokens') AS bigint)) AS output_tokens,
       sum(cast(json_extract(usage, '$.total_tokens') AS bigint)) AS total_tokens,
       sum(cast(json_extract(usage, '$.cached_tokens') AS bigint)) AS cached_tokens,
       sum(cast(cost AS double precision)) AS cost
FROM runs
WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
GROUP BY agent_name, day ORDER BY day DESC, agent_name LIMIT :limit

-- name: by_agent (postgres)
SELECT agent_name, created_at / 86400000 AS day, count(*) AS runs,
       sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN status IN ('failed', 'timeout') THEN 1 ELSE 0 END) AS failed,
       cast(sum(cast(cast(usage AS jsonb) ->> 'input_tokens' AS bigint)) AS bigint) AS input_tokens,
       cast(sum(cast(cast(usage AS jsonb) ->> 'output_tokens' AS bigint)) AS bigint) AS output_tokens,
       cast(sum(cast(cast(usage AS jsonb) ->> 'total_tokens' AS bigint)) AS bigint) AS total_tokens,
       cast(sum(cast(cast(usage AS jsonb) ->> 'cached_tokens' AS bigint)) AS bigint) AS cached_tokens,
       sum(cast(cost AS double precision)) AS cost
FROM runs
WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
GROUP BY agent_name, day ORDER BY day DESC, agent_name LIMIT :limit

-- name: open_runs
-- Runs that are not over, by status, of all workspaces: for metrics.
SELECT status, count(*) AS runs FROM runs
WHERE status IN ('queued', 'claimed', 'running', 'paused') GROUP BY status
