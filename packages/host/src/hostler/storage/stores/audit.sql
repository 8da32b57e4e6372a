-- Audit facts, in their own hash chain.

-- name: insert
-- seq and digest are set at the end of the transaction (hash_chain.sql).
INSERT INTO audit (workspace_id, audit_id, body_digest, actor, action, target, body, created_at)
VALUES (:workspace_id, :audit_id, :body_digest, :actor, :action, :target, :body, :created_at)

-- name: page
SELECT audit_id, seq, actor, action, target, body, created_at FROM audit
WHERE workspace_id = :workspace_id AND seq < :before_seq ORDER BY seq DESC LIMIT :limit
