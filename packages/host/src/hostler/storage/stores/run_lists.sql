-- Lists of runs by filters. A list walks one index, whose next keys are read first; the filters are applied to these
-- runs alone. So a page costs the same however many runs there are.

-- part: next_keys
(created_at, run_id) < (:before_time, :before_id) AND created_at >= :since
ORDER BY created_at DESC, run_id DESC LIMIT :limit OFFSET :skip

-- name: keys
SELECT run_id, created_at FROM runs
WHERE workspace_id = :workspace_id AND [part next_keys]

-- name: keys_of_agent
SELECT run_id, created_at FROM runs
WHERE workspace_id = :workspace_id AND agent_name = :agent_name
  AND [part next_keys]

-- name: keys_of_conversation
SELECT run_id, created_at FROM runs
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id
  AND [part next_keys]

-- name: keys_of_tool
SELECT run_id, created_at FROM run_tools
WHERE workspace_id = :workspace_id AND tool_name = :tool_name
  AND [part next_keys]

-- name: keys_unsuccessful (sqlite)
-- The planner prefers the covering index of all runs, which it would walk through where few failed.
SELECT run_id, created_at FROM runs INDEXED BY runs_unsuccessful
WHERE workspace_id = :workspace_id AND status IN ('failed', 'timeout', 'cancelled')
  AND [part next_keys]

-- name: keys_unsuccessful (postgres)
SELECT run_id, created_at FROM runs
WHERE workspace_id = :workspace_id AND status IN ('failed', 'timeout', 'cancelled')
  AND [part next_keys]

-- part: passing
-- Of these runs, those that pass the filters. :statuses is a list like ',queued,running,'; no status holds a wildcard.
FROM [texts :run_ids] AS found CROSS JOIN runs AS r
WHERE r.run_id = found.value AND r.workspace_id = :workspace_id AND r.created_at >= :since AND r.created_at <= :until
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || r.status || ',%')
  AND (cast(:agent_name AS text) IS NULL OR r.agent_name = :agent_name)
  AND (cast(:conversation_id AS text) IS NULL OR r.conversation_id = :conversation_id)
  AND (cast(:min_cost AS double precision) IS NULL OR cast(r.cost AS double precision) >= :min_cost)
  AND (cast(:tool_name AS text) IS NULL OR EXISTS (SELECT 1 FROM run_tools AS t
       WHERE t.workspace_id = r.workspace_id AND t.tool_name = :tool_name AND t.created_at = r.created_at
         AND t.run_id = r.run_id))

-- name: matching
SELECT r.* [part passing]
ORDER BY r.created_at DESC, r.run_id DESC LIMIT :limit

-- name: totals
-- Sums over the same. Token numbers are floating-point, which cannot overflow; NULL: no run has a value.
SELECT status, count(*) AS runs,
       sum(cast([field usage.input_tokens] AS double precision)) AS input_tokens,
       sum(cast([field usage.output_tokens] AS double precision)) AS output_tokens,
       sum(cast(cost AS double precision)) AS cost,
       count(CASE WHEN finished_at >= started_at THEN 1 END) AS timed,
       sum(CASE WHEN finished_at >= started_at THEN finished_at - started_at END) AS milliseconds
[part passing]
GROUP BY status

-- name: runs_of_events
-- The run of each event, if it has one.
SELECT event_id, run_id FROM events
WHERE workspace_id = :workspace_id AND event_id IN (SELECT value FROM [texts :event_ids] AS given) AND run_id IS NOT NULL

-- name: said_later
-- What was asked or answered in a run from a message of the transcript on.
SELECT search_text FROM transcripts WHERE workspace_id = :workspace_id AND run_id = :run_id AND seq >= :seq
ORDER BY seq LIMIT :limit
