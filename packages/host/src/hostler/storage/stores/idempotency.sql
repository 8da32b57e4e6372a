-- Idempotency keys of HTTP POSTs.

-- name: begin
INSERT INTO idempotency (workspace_id, caller, key, body_digest, status, created_at)
VALUES (:workspace_id, :caller, :key, :body_digest, 0, :now)
ON CONFLICT (workspace_id, caller, key) DO NOTHING

-- name: begin_again
-- Takes over a request that its host, which died, never answered.
UPDATE idempotency SET created_at = :now, body_digest = :body_digest
WHERE workspace_id = :workspace_id AND caller = :caller AND key = :key AND status = 0
  AND created_at < :abandoned_before

-- name: find
SELECT body_digest, status, answer FROM idempotency
WHERE workspace_id = :workspace_id AND caller = :caller AND key = :key

-- name: finish
UPDATE idempotency SET status = :status, answer = :answer, ids = :ids
WHERE workspace_id = :workspace_id AND caller = :caller AND key = :key AND status = 0

-- name: forget
DELETE FROM idempotency
WHERE workspace_id = :workspace_id AND caller = :caller AND key = :key AND status = 0
