-- Statements of retention and deletion on request. Rows of events and runs stay, without content.

-- name: empty_event
-- Id, position in the chain and digests stay, so a second delivery is still recognised. A sealed digest of the request
-- goes with its key.
UPDATE events SET body = NULL,
    request_digest = CASE WHEN length(request_digest) > 64 THEN '' ELSE request_digest END,
    input_summary = '', conversation_id = NULL, thread_id = NULL, actor_type = NULL,
    actor_id = NULL, actor_name = NULL, subject_type = NULL, subject_id = NULL, requester = NULL, requester_roles = NULL, routing = '{}',
    steering = NULL
WHERE workspace_id = :ws AND seq = :seq AND body IS NOT NULL

-- name: journal_rows
SELECT last_position, count, blob FROM journal WHERE run_id = :run_id ORDER BY last_position LIMIT :limit

-- name: delta_rows
SELECT last_position, count, blob FROM journal
WHERE run_id = :run_id AND type = 'message.delta' ORDER BY last_position LIMIT :limit

-- name: delete_journal
DELETE FROM journal WHERE run_id = :run_id AND last_position <= :last

-- name: delete_deltas
DELETE FROM journal WHERE run_id = :run_id AND last_position <= :last AND type = 'message.delta'

-- name: empty_run
-- Cost and ending stay.
UPDATE runs SET conversation_id = NULL, thread_id = NULL, requester = NULL, cancel_reason = NULL,
    cancel_requested_by = NULL, grant_json = NULL, binding = '{}', lane = run_id
WHERE workspace_id = :ws AND run_id = :run_id AND status IN ('completed', 'failed', 'cancelled', 'timeout')

-- name: empty_source
-- The source run stays; the edited input and configuration do not.
UPDATE run_sources SET input = NULL, config = NULL WHERE workspace_id = :ws AND run_id = :run_id

-- name: uploads_of_run
SELECT upload_id FROM uploads WHERE workspace_id = :ws AND run_id = :run_id

-- name: artifacts_of_run
SELECT artifact_id FROM artifacts WHERE workspace_id = :ws AND run_id = :run_id LIMIT :limit

-- name: answers_naming
-- Stored HTTP answers that contain the id of a run, and so perhaps its output.
DELETE FROM idempotency WHERE workspace_id = :ws AND instr(coalesce(ids, answer), :run_id) > 0

-- name: answers_naming (postgres)
DELETE FROM idempotency WHERE workspace_id = :ws AND strpos(coalesce(ids, answer), :run_id) > 0
