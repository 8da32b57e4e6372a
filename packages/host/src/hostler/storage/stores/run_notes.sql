-- Journal entries written by others than the owner of a run's attempt.

-- name: hold
-- Locks the row until the transaction ends: changes of a run's pauses run one after the other.
SELECT * FROM runs WHERE run_id = :run_id [postgres FOR UPDATE]

-- name: advance
-- Reserves positions; for an ended run, whose last entry is otherwise its ending, only if :ended is 1.
UPDATE runs SET position = position + :entries
WHERE run_id = :run_id AND (finished_at IS NULL OR CAST(:ended AS bigint) = 1)
RETURNING workspace_id, attempt, position, sequence, agent_name, conversation_id, bot_id
