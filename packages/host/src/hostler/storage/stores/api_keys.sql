-- API keys. A key is looked up by its hash before its workspace is known: key_hash and key_id are unique everywhere.

-- name: insert
INSERT INTO api_keys (key_id, workspace_id, key_hash, name, subject, roles, rights, plugin, member_id, created_at,
                      expires_at)
VALUES (:key_id, :workspace_id, :key_hash, :name, :subject, :roles, :rights, :plugin, :member_id, :created_at,
        :expires_at)

-- name: by_hash
SELECT * FROM api_keys WHERE key_hash = :key_hash

-- name: page
SELECT * FROM api_keys WHERE workspace_id = :workspace_id AND key_id > :after ORDER BY key_id LIMIT :limit

-- name: remote_plugins
-- Remote plugins that may connect, in all workspaces: the host expects them.
SELECT DISTINCT plugin FROM api_keys
WHERE plugin IS NOT NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY plugin LIMIT :limit

-- name: find
SELECT * FROM api_keys WHERE workspace_id = :workspace_id AND key_id = :key_id

-- name: of_member
-- Personal keys that are not revoked.
SELECT * FROM api_keys
WHERE workspace_id = :workspace_id AND member_id = :member_id AND revoked_at IS NULL ORDER BY key_id LIMIT :limit

-- name: revoke
UPDATE api_keys SET revoked_at = :now
WHERE workspace_id = :workspace_id AND key_id = :key_id AND revoked_at IS NULL
