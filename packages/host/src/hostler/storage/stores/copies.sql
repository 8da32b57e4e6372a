-- Copies of messages and files in other conversations.

-- name: insert
INSERT INTO copies (workspace_id, name, conversation_id, event_id, run_id, actor_type, actor_id, subject_type, subject_id)
VALUES (:ws, :name, :conversation_id, :event_id, :run_id, :actor_type, :actor_id, :subject_type, :subject_id)

-- name: origin
SELECT event_id, run_id, actor_type, actor_id, subject_type, subject_id FROM copies
WHERE workspace_id = :ws AND name = :name

-- name: people
-- Who sent an event, or that of a run, and whom it was about.
SELECT e.actor_type, e.actor_id, e.subject_type, e.subject_id FROM events AS e
WHERE e.workspace_id = :ws AND e.event_id = COALESCE(
    CAST(:event_id AS text),
    (SELECT r.event_id FROM runs AS r WHERE r.workspace_id = :ws AND r.run_id = CAST(:run_id AS text)))

-- name: of_person
-- Copies, in some conversations, of a person's data, or of what is about them.
SELECT name, conversation_id FROM copies
WHERE workspace_id = :ws AND actor_id = :actor_id
  AND (CAST(:actor_type AS text) IS NULL OR actor_type = :actor_type)
  AND conversation_id IN (SELECT value FROM [texts :places] AS given)
UNION
SELECT name, conversation_id FROM copies
WHERE workspace_id = :ws AND subject_id = :actor_id
  AND (CAST(:actor_type AS text) IS NULL OR subject_type = :actor_type)
  AND conversation_id IN (SELECT value FROM [texts :places] AS given)
LIMIT :limit

-- name: places_of_person
-- The conversations of those.
SELECT conversation_id FROM copies
WHERE workspace_id = :ws AND actor_id = :actor_id
  AND (CAST(:actor_type AS text) IS NULL OR actor_type = :actor_type)
UNION
SELECT conversation_id FROM copies
WHERE workspace_id = :ws AND subject_id = :actor_id
  AND (CAST(:actor_type AS text) IS NULL OR subject_type = :actor_type)
LIMIT :limit

-- name: of_event
SELECT name, conversation_id FROM copies WHERE workspace_id = :ws AND event_id = :event_id LIMIT :limit

-- name: of_run
SELECT name, conversation_id FROM copies WHERE workspace_id = :ws AND run_id = :run_id LIMIT :limit

-- name: delete
DELETE FROM copies WHERE workspace_id = :ws AND name = :name
