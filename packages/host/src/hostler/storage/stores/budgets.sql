-- Budgets: what was used and is reserved of each account, and what people added. Rows are locked last in a transaction,
-- reservations first and then accounts in the order of their keys, so that groups of several hosts wait for each other
-- instead of deadlocking.

-- name: take
-- Reads the row and locks it until the transaction ends.
INSERT INTO budget_use (workspace_id, span, owner_id, day, calls, tokens, cost, updated_at)
VALUES (:ws, :span, :owner_id, :day, 0, 0, 0, :now)
ON CONFLICT (workspace_id, span, owner_id, day) DO UPDATE SET updated_at = excluded.updated_at
RETURNING calls, tokens, cost, tool_calls, seconds, reserved_tokens, reserved_cost, added_calls, added_tokens,
    added_cost, added_tool_calls, added_seconds, limits

-- name: put
UPDATE budget_use SET calls = :calls, tokens = :tokens, cost = :cost, tool_calls = :tool_calls, seconds = :seconds,
    reserved_tokens = :reserved_tokens, reserved_cost = :reserved_cost
WHERE workspace_id = :ws AND span = :span AND owner_id = :owner_id AND day = :day

-- name: describe
-- What lists show of the account.
UPDATE budget_use SET limits = :limits, agent_name = :agent_name, conversation_id = :conversation_id, person = :person
WHERE workspace_id = :ws AND span = :span AND owner_id = :owner_id AND day = :day

-- name: add
UPDATE budget_use SET added_calls = :calls, added_tokens = :tokens, added_cost = :cost, added_tool_calls = :tool_calls,
    added_seconds = :seconds, added_by = :subject
WHERE workspace_id = :ws AND span = :span AND owner_id = :owner_id AND day = :day

-- name: reserved
SELECT output FROM budget_reservations WHERE workspace_id = :ws AND reservation_id = :reservation_id

-- name: reserve
INSERT INTO budget_reservations (workspace_id, reservation_id, run_id, attempt, method, accounts, tokens, cost, output,
    created_at)
VALUES (:ws, :reservation_id, :run_id, :attempt, :method, :accounts, :tokens, :cost, :output, :now)

-- name: release
DELETE FROM budget_reservations WHERE workspace_id = :ws AND reservation_id = :reservation_id
RETURNING accounts, tokens, cost

-- name: of_run
SELECT reservation_id FROM budget_reservations WHERE workspace_id = :ws AND run_id = :run_id
ORDER BY reservation_id LIMIT :limit

-- name: left_behind
-- Reservations of attempts that are over, whatever became of the host that was to settle them.
SELECT b.reservation_id FROM budget_reservations AS b
LEFT JOIN runs AS r ON r.workspace_id = b.workspace_id AND r.run_id = b.run_id
WHERE b.workspace_id = :ws AND (r.run_id IS NULL OR r.attempt > b.attempt OR r.status NOT IN ('claimed', 'running'))
ORDER BY b.reservation_id LIMIT :limit

-- name: top_up
INSERT INTO budget_top_ups (workspace_id, top_up_id, span, owner_id, day, amounts, subject, key_id, comment, run_id,
    pause_id, created_at)
VALUES (:ws, :top_up_id, :span, :owner_id, :day, :amounts, :subject, :key_id, :comment, :run_id, :pause_id, :now)
ON CONFLICT (workspace_id, top_up_id) DO NOTHING
