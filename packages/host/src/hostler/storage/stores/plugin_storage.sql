-- Storage: bytes by (owner, key). The owner is a plugin's key, or '' for the workspace.

-- name: get
SELECT value FROM storage WHERE workspace_id = :ws AND owner = :owner AND key = :key;

-- name: put
INSERT INTO storage (workspace_id, owner, key, value, updated_at)
VALUES (:ws, :owner, :key, :value, :now)
ON CONFLICT (workspace_id, owner, key)
DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at;

-- name: has
SELECT 1 AS found FROM storage WHERE workspace_id = :ws AND owner = :owner AND key = :key;

-- name: count
SELECT COUNT(*) AS rows FROM
    (SELECT 1 FROM storage WHERE workspace_id = :ws AND owner = :owner LIMIT :limit) AS counted;

-- name: delete
DELETE FROM storage WHERE workspace_id = :ws AND owner = :owner AND key = :key;

-- name: keys
SELECT key FROM storage
WHERE workspace_id = :ws AND owner = :owner AND key >= :low AND key < :high
ORDER BY key LIMIT :limit;
