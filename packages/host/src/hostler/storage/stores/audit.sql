-- Audit facts, in their own hash chain.

-- name: insert
-- seq and digest are set at the end of the transaction (hash_chain.sql).
INSERT INTO audit (workspace_id, audit_id, body_digest, actor, action, target, body, created_at)
VALUES (:workspace_id, :audit_id, :body_digest, :actor, :action, :target, :body, :created_at)

-- name: page
SELECT audit_id, seq, actor, action, target, body, created_at FROM audit
WHERE workspace_id = :workspace_id AND seq < :before_seq ORDER BY seq DESC LIMIT :limit

-- name: walk
-- What filters look at, newest first: no bodies, which may be sealed.
SELECT seq, actor, action, target, created_at FROM audit
WHERE workspace_id = :workspace_id AND seq < :before_seq AND seq >= :from_seq ORDER BY seq DESC LIMIT :limit

-- name: walk_of_actor
SELECT seq, actor, action, target, created_at FROM audit
WHERE workspace_id = :workspace_id AND actor = :value AND seq < :before_seq AND seq >= :from_seq
ORDER BY seq DESC LIMIT :limit

-- name: walk_of_action
SELECT seq, actor, action, target, created_at FROM audit
WHERE workspace_id = :workspace_id AND action = :value AND seq < :before_seq AND seq >= :from_seq
ORDER BY seq DESC LIMIT :limit

-- name: walk_of_target
SELECT seq, actor, action, target, created_at FROM audit
WHERE workspace_id = :workspace_id AND target = :value AND seq < :before_seq AND seq >= :from_seq
ORDER BY seq DESC LIMIT :limit

-- name: of_seqs
SELECT audit_id, seq, actor, action, target, body, created_at FROM audit
WHERE workspace_id = :workspace_id AND seq IN [numbers :seqs] ORDER BY seq DESC

-- name: first_since
SELECT seq FROM audit WHERE workspace_id = :workspace_id AND created_at >= :since AND seq IS NOT NULL
ORDER BY created_at, seq LIMIT 1

-- name: last_until
SELECT seq FROM audit WHERE workspace_id = :workspace_id AND created_at < :until AND seq IS NOT NULL
ORDER BY created_at DESC, seq DESC LIMIT 1
