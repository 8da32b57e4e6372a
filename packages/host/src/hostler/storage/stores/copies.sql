-- Copies of messages and files in other conversations.

-- name: insert
INSERT INTO copies (workspace_id, name, conversation_id, event_id, run_id)
VALUES (:ws, :name, :conversation_id, :event_id, :run_id)

-- name: origin
SELECT event_id, run_id FROM copies WHERE workspace_id = :ws AND name = :name

-- name: of_event
SELECT name, conversation_id FROM copies WHERE workspace_id = :ws AND event_id = :event_id LIMIT :limit

-- name: of_run
SELECT name, conversation_id FROM copies WHERE workspace_id = :ws AND run_id = :run_id LIMIT :limit

-- name: delete
DELETE FROM copies WHERE workspace_id = :ws AND name = :name
