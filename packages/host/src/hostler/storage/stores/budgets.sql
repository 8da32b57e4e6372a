-- Budget use of runs, and of agents per day. Rows are locked last in a transaction and in the order of their keys, so
-- that groups of several hosts wait for each other instead of deadlocking.

-- name: take
-- Reads the row and locks it until the transaction ends.
INSERT INTO budget_use (workspace_id, span, owner_id, day, calls, tokens, cost, updated_at)
VALUES (:ws, :span, :owner_id, :day, 0, 0, 0, :now)
ON CONFLICT (workspace_id, span, owner_id, day) DO UPDATE SET updated_at = excluded.updated_at
RETURNING calls, tokens, cost

-- name: put
UPDATE budget_use SET calls = :calls, tokens = :tokens, cost = :cost
WHERE workspace_id = :ws AND span = :span AND owner_id = :owner_id AND day = :day

-- name: sweep
-- Rows of past days and of ended runs, at most :limit.
DELETE FROM budget_use WHERE workspace_id = :ws AND (span, owner_id, day) IN (
    SELECT u.span, u.owner_id, u.day FROM budget_use AS u
    WHERE u.workspace_id = :ws AND u.updated_at < :before AND (u.span = 'day' OR NOT EXISTS (
        SELECT 1 FROM runs AS r WHERE r.workspace_id = u.workspace_id AND r.run_id = u.owner_id
          AND r.status IN ('queued', 'claimed', 'running', 'paused')))
    LIMIT :limit)
