-- Deletion on request: the rows of a conversation or a person.

-- name: items_of_conversation
SELECT seq FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq <= :until ORDER BY seq LIMIT :limit

-- name: items_of_event
SELECT seq FROM transcripts WHERE workspace_id = :ws AND event_id = :event_id LIMIT :limit

-- name: items_of_run
SELECT seq FROM transcripts WHERE workspace_id = :ws AND run_id = :run_id LIMIT :limit

-- name: active_runs
SELECT r.run_id FROM runs AS r
LEFT JOIN events AS e ON e.workspace_id = r.workspace_id AND e.event_id = r.event_id
WHERE r.workspace_id = :ws AND r.conversation_id = :conversation_id
  AND (r.created_at <= :until OR e.seq <= :last_event)
  AND r.status NOT IN ('completed', 'failed', 'cancelled', 'timeout')
ORDER BY r.created_at LIMIT :limit

-- name: runs_of_conversation
-- By time or by the number of their event: after a clock was set back, times do not tell what came before.
SELECT r.run_id FROM runs AS r
LEFT JOIN events AS e ON e.workspace_id = r.workspace_id AND e.event_id = r.event_id
WHERE r.workspace_id = :ws AND r.conversation_id = :conversation_id
  AND (r.created_at >= :since OR e.seq >= :first_event) AND (r.created_at <= :until OR e.seq <= :last_event)
  AND r.run_id > :after
ORDER BY r.run_id LIMIT :limit

-- name: latest_file
SELECT MAX(created_at) AS at FROM artifacts WHERE workspace_id = :ws AND conversation_id = :conversation_id

-- name: children
-- Child runs without a conversation.
SELECT run_id FROM runs WHERE workspace_id = :ws AND parent_run_id = :run_id AND conversation_id IS NULL LIMIT :limit

-- name: event_of_run
SELECT e.seq, e.event_id FROM runs AS r
JOIN events AS e ON e.workspace_id = r.workspace_id AND e.event_id = r.event_id
WHERE r.workspace_id = :ws AND r.run_id = :run_id AND e.body IS NOT NULL

-- name: absorbed
-- The messages that a run absorbed and pulled, as far as they have content.
SELECT e.seq, e.event_id FROM steering AS s
JOIN events AS e ON e.workspace_id = s.workspace_id AND e.event_id = s.event_id
WHERE s.workspace_id = :ws AND s.run_id = :run_id AND s.status = 'injected' AND e.body IS NOT NULL

-- name: run_status
SELECT status FROM runs WHERE workspace_id = :ws AND run_id = :run_id

-- name: artifacts_of_conversation
SELECT artifact_id FROM artifacts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND created_at <= :until LIMIT :limit

-- name: artifacts_of_event
SELECT artifact_id FROM artifacts WHERE workspace_id = :ws AND event_id = :event_id LIMIT :limit

-- name: drop_state_of_conversation
DELETE FROM states WHERE workspace_id = :ws AND conversation_id = :conversation_id AND scope = 'conversation'
RETURNING agent_id, size_bytes

-- name: drop_state_of_actor
-- State of the scopes `actor` and `subject`.
DELETE FROM states
WHERE workspace_id = :ws AND actor_id = :actor_id AND scope IN ('actor', 'subject')
  AND (CAST(:actor_type AS text) IS NULL OR actor_type = :actor_type)
RETURNING agent_id, size_bytes

-- name: events_of_conversation
SELECT seq, event_id FROM events
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq <= :until ORDER BY seq LIMIT :limit

-- name: events_of_conversation_after
SELECT seq, event_id FROM events
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq > :after AND seq <= :until
ORDER BY seq LIMIT :limit

-- name: events_between
-- One step of a walk through the log.
SELECT seq, event_id, run_id, outcome, conversation_id, created_at, actor_type, actor_id, subject_type, subject_id
FROM events WHERE workspace_id = :ws AND seq > :after AND seq <= :until ORDER BY seq LIMIT :limit
