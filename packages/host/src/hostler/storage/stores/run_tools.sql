-- Which tools a run used.

-- name: add
-- Once for each tool of a run.
INSERT INTO run_tools (workspace_id, tool_name, created_at, run_id)
SELECT workspace_id, cast(:tool_name AS text), created_at, run_id FROM runs
WHERE workspace_id = :workspace_id AND run_id = :run_id
ON CONFLICT (workspace_id, tool_name, created_at, run_id) DO NOTHING

-- name: drop
DELETE FROM run_tools WHERE run_id = :run_id
