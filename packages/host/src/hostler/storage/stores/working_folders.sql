-- Whether the owner of a working folder still exists.

-- name: run_status
SELECT status FROM runs WHERE workspace_id = :ws AND run_id = :run_id

-- name: message
SELECT seq FROM transcripts WHERE workspace_id = :ws AND conversation_id = :conversation_id LIMIT 1

-- name: event
-- Deleted events have no body.
SELECT seq FROM events
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND body IS NOT NULL LIMIT 1

-- name: actor_event
SELECT seq FROM events
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND actor_id = :actor_id
  AND (actor_type = CAST(:actor_type AS text) OR CAST(:actor_type AS text) IS NULL) LIMIT 1

-- name: active_run
SELECT run_id FROM runs
WHERE workspace_id = :ws AND conversation_id = :conversation_id
  AND status NOT IN ('completed', 'failed', 'cancelled', 'timeout') LIMIT 1
