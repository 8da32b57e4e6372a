-- Use over time. Sums are floating-point numbers, which cannot overflow; NULL if nothing has a value.

-- part: name_by
CASE cast(:by AS text) WHEN 'agent' THEN agent_name WHEN 'person' THEN coalesce(requester, '') ELSE '' END

-- part: about
-- `ms` milliseconds: exact below 64, and else to a sixteenth or less.
CASE WHEN ms < 64 THEN ms WHEN ms < 128 THEN ms / 4 * 4 + 2 WHEN ms < 512 THEN ms / 8 * 8 + 4
     WHEN ms < 2048 THEN ms / 32 * 32 + 16 WHEN ms < 8192 THEN ms / 128 * 128 + 64
     WHEN ms < 32768 THEN ms / 512 * 512 + 256 WHEN ms < 131072 THEN ms / 2048 * 2048 + 1024
     WHEN ms < 524288 THEN ms / 8192 * 8192 + 4096 WHEN ms < 2097152 THEN ms / 32768 * 32768 + 16384
     WHEN ms < 8388608 THEN ms / 131072 * 131072 + 65536 WHEN ms < 33554432 THEN ms / 524288 * 524288 + 262144
     WHEN ms < 134217728 THEN ms / 2097152 * 2097152 + 1048576
     ELSE ms / 8388608 * 8388608 + 4194304 END

-- name: begin_of_newest
-- When the newest :most runs of a period begin.
SELECT created_at FROM runs WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
ORDER BY created_at DESC LIMIT 1 OFFSET :most

-- name: count_runs
-- How many runs a period has, at most :limit.
SELECT count(*) AS runs FROM (SELECT 1 FROM runs
    WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until LIMIT :limit) AS counted

-- name: run_names
-- The agents or people with the most runs.
SELECT [part name_by] AS name
FROM runs
WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT :limit

-- name: run_sums
-- Runs created in [since, until), by name and step of time. The name is NULL for those that :names leaves out.
WITH used AS (
    SELECT [part name_by] AS name,
           (created_at + cast(:shift AS bigint)) / cast(:step AS bigint) AS place, status,
           cast(cost AS double precision) AS cost,
           cast([field usage.input_tokens] AS double precision) AS input_tokens,
           cast([field usage.output_tokens] AS double precision) AS output_tokens,
           cast([field usage.total_tokens] AS double precision) AS total_tokens,
           cast([field usage.cached_tokens] AS double precision) AS cached_tokens
    FROM runs
    WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
      AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
)
SELECT CASE WHEN name IN [texts :names] THEN name END AS name, place, count(*) AS runs, NULL AS calls,
       sum(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN status IN ('failed', 'timeout') THEN 1 ELSE 0 END) AS failed,
       sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(total_tokens) AS total_tokens,
       sum(cached_tokens) AS cached_tokens, sum(cost) AS cost
FROM used GROUP BY 1, 2 ORDER BY 2

-- name: run_times
-- How many runs took about so long, in milliseconds.
WITH used AS (
    SELECT [part name_by] AS name,
           (created_at + cast(:shift AS bigint)) / cast(:step AS bigint) AS place, finished_at - started_at AS ms
    FROM runs
    WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at < :until
      AND finished_at IS NOT NULL AND started_at IS NOT NULL
      AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
)
SELECT CASE WHEN name IN [texts :names] THEN name END AS name, place,
       [part about] AS about,
       count(*) AS many
FROM used GROUP BY 1, 2, 3

-- name: begin_of_newest_calls
SELECT at AS created_at FROM model_calls WHERE workspace_id = :workspace_id AND at >= :since AND at < :until
ORDER BY at DESC LIMIT 1 OFFSET :most

-- name: model_names
-- The models with the most calls.
SELECT model_id AS name FROM model_calls
WHERE workspace_id = :workspace_id AND at >= :since AND at < :until
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT :limit

-- name: model_sums
-- As run_sums, of calls of models. A run that calls several models is one of each.
SELECT CASE WHEN model_id IN [texts :names] THEN model_id END AS name,
       (at + cast(:shift AS bigint)) / cast(:step AS bigint) AS place, count(DISTINCT run_id) AS runs, count(*) AS calls,
       sum(CASE WHEN outcome = 'completed' THEN 1 ELSE 0 END) AS completed,
       sum(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed,
       sum(cast(input_tokens AS double precision)) AS input_tokens,
       sum(cast(output_tokens AS double precision)) AS output_tokens,
       sum(cast(total_tokens AS double precision)) AS total_tokens,
       sum(cast(cached_tokens AS double precision)) AS cached_tokens,
       sum(cast(cost AS double precision)) AS cost
FROM model_calls
WHERE workspace_id = :workspace_id AND at >= :since AND at < :until
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
GROUP BY 1, 2 ORDER BY 2

-- name: model_times
-- As run_times, of calls of models that did not fail.
WITH used AS (
    SELECT model_id, (at + cast(:shift AS bigint)) / cast(:step AS bigint) AS place, milliseconds AS ms
    FROM model_calls
    WHERE workspace_id = :workspace_id AND at >= :since AND at < :until AND outcome = 'completed'
      AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
)
SELECT CASE WHEN model_id IN [texts :names] THEN model_id END AS name, place,
       [part about] AS about,
       count(*) AS many
FROM used GROUP BY 1, 2, 3
