-- Retention of settled pauses.

-- name: old_states
-- Settled pauses with a state or its encryption key, unless their run is active and may need it once more.
SELECT pause_id, state_blob FROM pauses
WHERE workspace_id = :ws AND settled_at < :before
  AND (state IS NOT NULL OR state_blob IS NOT NULL OR data_key IS NOT NULL)
  AND NOT (status = 'resumed'
      AND EXISTS (SELECT 1 FROM runs r WHERE r.run_id = pauses.run_id AND r.finished_at IS NULL))
LIMIT :limit

-- name: drop_state
-- Without its key no copy of an encrypted state can be read again.
UPDATE pauses SET state = NULL, state_blob = NULL, data_key = NULL
WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: old_pauses
SELECT pause_id, state_blob FROM pauses WHERE workspace_id = :ws AND settled_at < :before
  AND NOT (status = 'resumed'
      AND EXISTS (SELECT 1 FROM runs r WHERE r.run_id = pauses.run_id AND r.finished_at IS NULL))
LIMIT :limit

-- name: of_run
SELECT pause_id, state_blob, created_at, settled_at FROM pauses WHERE workspace_id = :ws AND run_id = :run_id LIMIT :limit

-- name: drop_calls
DELETE FROM pause_calls WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: drop_votes
DELETE FROM decision_votes WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: drop_requests
DELETE FROM action_requests WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: drop_rules
DELETE FROM approval_rules WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: drop_chat_answers
DELETE FROM chat_answers WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: drop_chat_questions
DELETE FROM chat_questions WHERE workspace_id = :ws AND pause_id = :pause_id

-- name: drop_pause
DELETE FROM pauses WHERE workspace_id = :ws AND pause_id = :pause_id
