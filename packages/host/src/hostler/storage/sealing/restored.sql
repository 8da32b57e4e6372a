-- Removal of what was erased after a backup was made. It is restored into SQLite, by a command.

-- name: empty_event
-- What is stored of an event after it was emptied.
UPDATE events SET routing = '{}', steering = NULL, actor_name = NULL, input_summary = '', request_digest = ''
WHERE workspace_id = :ws AND seq = :seq

-- name: empty_run
UPDATE runs SET cancel_reason = NULL, binding = '{}' WHERE run_id = :run_id

-- name: empty_source
UPDATE run_sources SET input = NULL, config = NULL WHERE run_id = :run_id

-- name: drop_pause
DELETE FROM pauses WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: unindex (sqlite)
DELETE FROM transcript_docs WHERE workspace_id = :ws AND seq = :seq

-- name: drop_document
-- A document whose newest content was erased is no document.
DELETE FROM knowledge_documents WHERE workspace_id = :ws AND version_id = :version_id
