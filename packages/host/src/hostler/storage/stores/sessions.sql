-- Sessions of members and keys. A session is found by the hash of its token before its workspace is known.

-- name: insert
INSERT INTO sessions (workspace_id, session_id, member_id, token_hash, provider, issuer, agent, created_at, seen_at,
                      idle_ms, expires_at, key_id, origin)
VALUES (:workspace_id, :session_id, :member_id, :token_hash, :provider, :issuer, :agent, :now, :now, :idle_ms,
        :expires_at, :key_id, :origin)

-- name: by_hash
SELECT * FROM sessions WHERE token_hash = :token_hash

-- name: find
SELECT * FROM sessions WHERE workspace_id = :workspace_id AND session_id = :session_id

-- name: valid_of_member
-- Valid ones, oldest first.
SELECT * FROM sessions
WHERE workspace_id = :workspace_id AND member_id = :member_id AND revoked_at IS NULL AND expires_at > :now
  AND seen_at + idle_ms > :now
ORDER BY created_at, session_id LIMIT :limit

-- name: valid_of_key
-- Valid ones, oldest first.
SELECT * FROM sessions
WHERE workspace_id = :workspace_id AND key_id = :key_id AND revoked_at IS NULL AND expires_at > :now
  AND seen_at + idle_ms > :now
ORDER BY created_at, session_id LIMIT :limit

-- name: unrevoked_of_member
SELECT session_id FROM sessions
WHERE workspace_id = :workspace_id AND member_id = :member_id AND revoked_at IS NULL LIMIT :limit

-- name: seen
UPDATE sessions SET seen_at = :now
WHERE workspace_id = :workspace_id AND session_id = :session_id AND seen_at < :now

-- name: revoke
UPDATE sessions SET revoked_at = :now
WHERE workspace_id = :workspace_id AND session_id = :session_id AND revoked_at IS NULL

-- name: drop_ended
-- Sessions that nobody can use any more.
DELETE FROM sessions WHERE workspace_id = :workspace_id AND session_id IN (
    SELECT session_id FROM sessions
    WHERE workspace_id = :workspace_id
      AND (expires_at <= :before OR revoked_at <= :before OR seen_at + idle_ms <= :before)
    LIMIT :limit
)

-- name: spend
INSERT INTO sign_ins (state_hash, expires_at) VALUES (:state_hash, :expires_at) ON CONFLICT DO NOTHING

-- name: drop_spent
DELETE FROM sign_ins WHERE expires_at <= :now
