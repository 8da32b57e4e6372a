-- Journal entries written by others than the owner of a run's attempt.

-- name: hold
-- Locks the row until the transaction ends: changes of a run's pauses run one after the other.
SELECT * FROM runs WHERE run_id = :run_id [postgres FOR UPDATE]

-- name: advance
-- Reserves positions, but none for an ended run: its last entry is its ending.
UPDATE runs SET position = position + :entries
WHERE run_id = :run_id AND finished_at IS NULL
RETURNING workspace_id, attempt, position, sequence
