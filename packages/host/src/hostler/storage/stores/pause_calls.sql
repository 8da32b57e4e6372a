-- Calls of pauses. Statements that change one run with the lock of the run's row.

-- name: insert
INSERT INTO pause_calls (workspace_id, pause_id, call_id, run_id, ordinal, kind, revision, asked, args_hash, decision,
    execution, epoch, effect_key, resolution, review, handed_over, created_at, expires_at)
VALUES (:workspace_id, :pause_id, :call_id, :run_id, :ordinal, :kind, :revision, :asked, :args_hash, 'undecided',
    :execution, 0, :effect_key, 0, :review, 0, :created_at, :expires_at)

-- name: of_pause
SELECT * FROM pause_calls WHERE workspace_id = :workspace_id AND pause_id = :pause_id ORDER BY ordinal

-- name: find
SELECT * FROM pause_calls WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND call_id = :call_id

-- name: decide
UPDATE pause_calls SET decision = :decision, decided_by = :decided_by, decided_at = :now, given = :given,
    similar_id = cast(:similar_id AS text), review = cast(:review AS text)
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND call_id = :call_id AND decision = 'undecided'

-- name: edit
UPDATE pause_calls SET effective = :effective, args_hash = :args_hash, edited_by = :edited_by
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND call_id = :call_id AND decision = 'undecided'

-- name: execute
-- A step of the execution, from the state that was just read.
UPDATE pause_calls SET execution = :execution, epoch = :epoch, effect_key = cast(:effect_key AS text),
    given = :given, resolution = :resolution, review = cast(:review AS text),
    handed_over = CASE WHEN :handed_over = 1 THEN 1 ELSE handed_over END
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND call_id = :call_id AND execution = :execution_before

-- name: hand_over
UPDATE pause_calls SET handed_over = 1
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND call_id = :call_id AND handed_over = 0

-- name: ask_again
-- Undecided at a new revision: the same arguments, a new pin, no votes.
UPDATE pause_calls SET decision = 'undecided', decided_by = NULL, decided_at = NULL, given = NULL, similar_id = NULL,
    review = cast(:review AS text), revision = :revision, asked = :asked, args_hash = :args_hash,
    expires_at = cast(:expires_at AS bigint)
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND call_id = :call_id AND execution = 'none'

-- name: reserved
SELECT * FROM pause_calls WHERE run_id = :run_id AND execution = 'reserved' ORDER BY pause_id, ordinal

-- name: changed
-- Calls of all workspaces that wait for their tool to come back: for the sweeper.
SELECT * FROM pause_calls WHERE review = 'changed' ORDER BY pause_id, ordinal LIMIT :limit

-- name: refused_budgets
SELECT * FROM pause_calls WHERE run_id = :run_id AND kind = 'budget' AND decision IN ('denied', 'expired')
ORDER BY decided_at DESC, ordinal LIMIT :limit

-- name: of_budgets
-- Calls of all workspaces that wait until a budget has enough left: for the sweeper.
SELECT * FROM pause_calls WHERE kind = 'budget' AND decision = 'undecided'
  AND (created_at, pause_id, call_id) > (:after_at, :after_pause, :after_call)
ORDER BY created_at, pause_id, call_id LIMIT :limit
