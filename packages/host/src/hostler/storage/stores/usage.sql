-- Sums of token use and cost of runs.

-- name: by_agent
-- Runs created in [since, until), by agent and day (UTC). Sums are floating-point numbers, which cannot overflow; NULL if
-- no run has a value.
WITH used AS (
    SELECT agent_name, created_at / 86400000 AS day, status, cast(cost AS double precision) AS cost,
           cast([field usage.input_tokens] AS double precision) AS input_tokens,
           cast([field usage.output_tokens] AS double precision) AS output_tokens,
           cast([field usage.total_tokens] AS double precision) AS total_tokens,
           cast([field usage.cached_tokens] AS double precision) AS cached_tokens
    FROM runs
    WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
      AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
)
SELECT agent_name, day, count(*) AS runs,
       sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN status IN ('failed', 'timeout') THEN 1 ELSE 0 END) AS failed,
       sum(input_tokens) AS input_tokens,
       sum(output_tokens) AS output_tokens,
       sum(total_tokens) AS total_tokens,
       sum(cached_tokens) AS cached_tokens,
       sum(cost) AS cost
FROM used GROUP BY agent_name, day ORDER BY day DESC, agent_name LIMIT :limit

-- name: open_runs
-- Unfinished runs of all workspaces, by status: for metrics.
SELECT status, count(*) AS runs FROM runs
WHERE status IN ('queued', 'claimed', 'running', 'paused') GROUP BY status
