-- Pauses. Statements that change one run with the lock of the run's row (run_notes.hold).

-- name: insert
INSERT INTO pauses (workspace_id, pause_id, run_id, segment, conversation_id, requester, status, revision, form, epoch,
    attempts, agent_version, on_message, state, state_digest, state_blob, state_format, data_key, created_at)
VALUES (:workspace_id, :pause_id, :run_id,
    1 + coalesce((SELECT max(p.segment) FROM pauses p WHERE p.run_id = :run_id), 0),
    :conversation_id, :requester, :status, 1, :form, 0, 0, :agent_version, :on_message, :state, :state_digest,
    :state_blob, :state_format, :data_key, :created_at)
RETURNING *

-- name: find
SELECT * FROM pauses WHERE workspace_id = :workspace_id AND pause_id = :pause_id

-- name: unsettled
-- The pause that the run waits for or that an attempt resumes; at most one.
SELECT * FROM pauses WHERE run_id = :run_id AND status IN ('open', 'ready', 'resuming', 'needs_review')

-- name: waiting_runs
-- Which of these runs wait for people now, whether they are parked or held.
SELECT DISTINCT p.run_id FROM [texts :run_ids] AS found CROSS JOIN pauses AS p
WHERE p.run_id = found.value AND p.workspace_id = :workspace_id AND p.status IN ('open', 'needs_review')

-- name: of_run
SELECT * FROM pauses WHERE run_id = :run_id ORDER BY segment DESC LIMIT :limit

-- name: last_explicit
-- The last pause that the runner requested itself.
SELECT * FROM pauses WHERE run_id = :run_id AND form = 'explicit' ORDER BY segment DESC LIMIT 1

-- name: move
-- A change of status. No row: the pause has changed since it was read.
UPDATE pauses SET status = :status, revision = revision + :asked_again, epoch = :epoch, attempts = :attempts,
    losses = :losses,
    expires_at = cast(:expires_at AS bigint), resumed_by = coalesce(cast(:resumed_by AS text), resumed_by),
    settled_at = CASE WHEN :settled = 1 THEN cast(:now AS bigint) END
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND status = :status_before AND epoch = :epoch_before
RETURNING *

-- name: set_expiry
UPDATE pauses SET expires_at = cast(:expires_at AS bigint)
WHERE workspace_id = :workspace_id AND pause_id = :pause_id

-- name: set_parked
UPDATE pauses SET parked_at = cast(:parked_at AS bigint)
WHERE workspace_id = :workspace_id AND pause_id = :pause_id

-- name: due
-- Open pauses with an expired call, oldest first: for the sweeper.
SELECT workspace_id, pause_id FROM pauses
WHERE status = 'open' AND expires_at IS NOT NULL AND expires_at <= :now ORDER BY expires_at LIMIT :limit

-- name: next_due
-- When the next call expires.
SELECT min(expires_at) AS due FROM pauses WHERE status = 'open' AND expires_at IS NOT NULL

-- name: page
-- Newest first. :statuses is a list like ',open,ready,'; no status holds a wildcard but '_', which hits itself.
SELECT * FROM pauses
WHERE workspace_id = :workspace_id
  AND (created_at, pause_id) < (:before_time, :before_id)
  AND (cast(:run_id AS text) IS NULL OR run_id = :run_id)
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
ORDER BY created_at DESC, pause_id DESC LIMIT :limit

-- name: page_conversation
SELECT * FROM pauses
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id
  AND (created_at, pause_id) < (:before_time, :before_id)
  AND (cast(:run_id AS text) IS NULL OR run_id = :run_id)
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
ORDER BY created_at DESC, pause_id DESC LIMIT :limit

-- name: page_run
SELECT * FROM pauses
WHERE workspace_id = :workspace_id AND run_id = :run_id
  AND (created_at, pause_id) < (:before_time, :before_id)
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
ORDER BY created_at DESC, pause_id DESC LIMIT :limit

-- name: left_behind
-- Ready pauses whose run is still paused: it was parked just when they became ready.
SELECT p.workspace_id, p.pause_id FROM pauses p JOIN runs r ON r.run_id = p.run_id
WHERE p.status = 'ready' AND r.status = 'paused' LIMIT :limit
