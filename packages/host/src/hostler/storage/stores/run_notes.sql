-- Journal entries for a run that somebody other than its attempt has something to note about.

-- name: hold
SELECT * FROM runs WHERE run_id = :run_id

-- name: hold (postgres)
-- Keeps the row until the transaction ends: whatever concerns a run's pauses goes one after the other.
SELECT * FROM runs WHERE run_id = :run_id FOR UPDATE

-- name: advance
-- Gives out positions. An ended run gets none: its last entry is its ending.
UPDATE runs SET position = position + :entries
WHERE run_id = :run_id AND finished_at IS NULL
RETURNING workspace_id, attempt, position, sequence
