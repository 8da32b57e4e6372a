-- Conversations in which runs had state or history from elsewhere. The earliest time and event count: runs are not claimed in
-- the order in which they were made.

-- name: note_state
INSERT INTO state_readers (workspace_id, subject, actor_id, reader_id, run_id, person_id, since, first_event)
VALUES (:workspace_id, :subject, :actor_id, :reader_id, :run_id, :person_id, :since, :first_event)
ON CONFLICT (workspace_id, subject, actor_id, reader_id, run_id) DO UPDATE
SET since = CASE WHEN excluded.since < state_readers.since THEN excluded.since ELSE state_readers.since END,
    first_event = CASE WHEN excluded.first_event < state_readers.first_event THEN excluded.first_event
                  ELSE state_readers.first_event END

-- name: note_history
INSERT INTO history_readers (workspace_id, conversation_id, reader_id, since, first_event)
VALUES (:workspace_id, :conversation_id, :reader_id, :since, :first_event)
ON CONFLICT (workspace_id, conversation_id, reader_id) DO UPDATE
SET since = CASE WHEN excluded.since < history_readers.since THEN excluded.since ELSE history_readers.since END,
    first_event = CASE WHEN excluded.first_event < history_readers.first_event THEN excluded.first_event
                  ELSE history_readers.first_event END

-- name: subjects
-- The subjects that a person is, or whose state runs for them had.
SELECT subject FROM state_readers WHERE workspace_id = :workspace_id AND actor_id = :actor_id
UNION SELECT subject FROM state_readers WHERE workspace_id = :workspace_id AND person_id = :actor_id
UNION SELECT subject FROM state_readers WHERE workspace_id = :workspace_id AND subject = :actor_id

-- name: of_state
SELECT reader_id, run_id, MIN(since) AS since, MIN(first_event) AS first_event FROM state_readers
WHERE workspace_id = :workspace_id AND subject = :subject
GROUP BY reader_id, run_id ORDER BY reader_id, run_id

-- name: of_history
SELECT reader_id, '' AS run_id, since, first_event FROM history_readers
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id ORDER BY reader_id

-- name: drop_states
-- What agents noted about a subject, by whichever account.
DELETE FROM states WHERE workspace_id = :ws AND actor_id = :subject AND actor_type = :actor_type AND scope = 'actor'
RETURNING agent_id, size_bytes

-- name: forget_person
DELETE FROM state_readers
WHERE workspace_id = :workspace_id AND (actor_id = :actor_id OR person_id = :actor_id OR subject = :actor_id)

-- name: forget_reader
DELETE FROM state_readers WHERE workspace_id = :workspace_id AND reader_id = :conversation_id

-- name: forget_source
DELETE FROM history_readers WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id

-- name: forget_history_reader
DELETE FROM history_readers WHERE workspace_id = :workspace_id AND reader_id = :conversation_id
