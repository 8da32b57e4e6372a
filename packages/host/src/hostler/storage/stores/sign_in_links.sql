-- Links that sign a browser in. A link is found by the hash of its code before its workspace is known.

-- name: insert
INSERT INTO sign_in_links (workspace_id, token_hash, key_id, issuer, expires_at)
VALUES (:workspace_id, :token_hash, :key_id, :issuer, :expires_at)

-- name: by_hash
SELECT workspace_id, key_id, issuer FROM sign_in_links WHERE token_hash = :token_hash AND expires_at > :now

-- name: drop
DELETE FROM sign_in_links WHERE workspace_id = :workspace_id AND token_hash = :token_hash

-- name: drop_ended
DELETE FROM sign_in_links WHERE workspace_id = :workspace_id AND token_hash IN (
    SELECT token_hash FROM sign_in_links WHERE workspace_id = :workspace_id AND expires_at <= :now LIMIT :limit
)

-- name: drop_oldest
-- All but the :kept newest of a key.
DELETE FROM sign_in_links WHERE workspace_id = :workspace_id AND token_hash IN (
    SELECT token_hash FROM sign_in_links WHERE workspace_id = :workspace_id AND key_id = :key_id
    ORDER BY expires_at DESC, token_hash LIMIT :limit OFFSET :kept
)
