-- "Approve similar": approvals that apply to later calls, limited in number and time.

-- name: insert
INSERT INTO approval_rules (workspace_id, rule_id, agent_id, place, tool_name, pin, requester, arguments, args_digest,
    approver_rule, subject, key_id, pause_id, call_id, uses_left, created_at, expires_at)
VALUES (:workspace_id, :rule_id, :agent_id, :place, :tool_name, :pin, :requester, :arguments, :args_digest,
    :approver_rule, :subject, :key_id, :pause_id, :call_id, :uses_left, :created_at, :expires_at)

-- name: standing
SELECT * FROM approval_rules
WHERE workspace_id = :workspace_id AND place = :place AND tool_name = :tool_name AND expires_at > :now
  AND agent_id = :agent_id AND uses_left > 0 AND revoked_at IS NULL
ORDER BY expires_at, rule_id LIMIT :limit

-- name: use
-- No row is changed if the last use was taken meanwhile.
UPDATE approval_rules SET uses_left = uses_left - 1
WHERE workspace_id = :workspace_id AND rule_id = :rule_id AND uses_left > 0 AND revoked_at IS NULL

-- name: find
SELECT * FROM approval_rules WHERE workspace_id = :workspace_id AND rule_id = :rule_id

-- name: revoke
UPDATE approval_rules SET revoked_at = :now
WHERE workspace_id = :workspace_id AND rule_id = :rule_id AND revoked_at IS NULL

-- name: page
SELECT * FROM approval_rules
WHERE workspace_id = :workspace_id AND expires_at > :now AND uses_left > 0 AND revoked_at IS NULL AND rule_id > :after
ORDER BY rule_id LIMIT :limit
