-- Accounts of budgets: looked at and removed.

-- name: top_ups
SELECT top_up_id, amounts, subject, comment, run_id, pause_id, created_at FROM budget_top_ups
WHERE workspace_id = :ws AND span = :span AND owner_id = :owner_id AND day = :day
ORDER BY created_at DESC, top_up_id DESC LIMIT :limit

-- name: find
SELECT * FROM budget_use WHERE workspace_id = :ws AND span = :span AND owner_id = :owner_id AND day = :day

-- name: page
-- Latest use first. NULL parameters do not filter.
SELECT * FROM budget_use
WHERE workspace_id = :ws AND limits IS NOT NULL
  AND (CAST(:only_span AS text) IS NULL OR span = :only_span)
  AND (CAST(:agent_name AS text) IS NULL OR agent_name = :agent_name)
  AND (CAST(:conversation_id AS text) IS NULL OR conversation_id = :conversation_id)
  AND (CAST(:before_at AS bigint) IS NULL
       OR (updated_at, span, owner_id, day) < (:before_at, :before_span, :before_owner, :before_day))
ORDER BY updated_at DESC, span DESC, owner_id DESC, day DESC LIMIT :limit

-- name: forget_conversation
-- What was used stays, so that nobody gets a new budget by a deletion.
UPDATE budget_use SET conversation_id = NULL WHERE workspace_id = :ws AND conversation_id = :conversation_id

-- name: sweep
-- Rows of past days, of ended runs, and of conversations and persons long without use; at most :limit.
DELETE FROM budget_use WHERE workspace_id = :ws AND (span, owner_id, day) IN (
    SELECT u.span, u.owner_id, u.day FROM budget_use AS u
    WHERE u.workspace_id = :ws AND u.updated_at < :before
      AND (u.day > 0 OR (u.span IN ('conversation', 'person') AND u.updated_at < :long_before)
           OR (u.span = 'run' AND NOT EXISTS (
               SELECT 1 FROM runs AS r WHERE r.workspace_id = u.workspace_id AND r.run_id = u.owner_id
                 AND r.status IN ('queued', 'claimed', 'running', 'paused'))))
    LIMIT :limit)

-- name: sweep_top_ups
-- Top-ups of accounts that are gone.
DELETE FROM budget_top_ups WHERE workspace_id = :ws AND top_up_id IN (
    SELECT t.top_up_id FROM budget_top_ups AS t
    WHERE t.workspace_id = :ws AND t.created_at < :before AND NOT EXISTS (
        SELECT 1 FROM budget_use AS u WHERE u.workspace_id = t.workspace_id AND u.span = t.span
          AND u.owner_id = t.owner_id AND u.day = t.day)
    LIMIT :limit)
