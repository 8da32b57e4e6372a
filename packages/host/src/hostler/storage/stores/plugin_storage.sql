-- Storage: bytes by (owner, key). The owner is a plugin's key, or '' for the workspace.

-- name: get
SELECT value FROM storage WHERE workspace_id = :ws AND owner = :owner AND key = :key;

-- name: held
-- What a key counts, and for whom; others that write it wait.
SELECT agent_id, run_id, size_bytes FROM storage
WHERE workspace_id = :ws AND owner = :owner AND key = :key[postgres FOR UPDATE];

-- name: insert
INSERT INTO storage (workspace_id, owner, key, value, size_bytes, agent_id, run_id, updated_at)
VALUES (:ws, :owner, :key, :value, :size_bytes, :agent_id, :run_id, :now)
ON CONFLICT (workspace_id, owner, key) DO NOTHING;

-- name: update
UPDATE storage SET value = :value, size_bytes = :size_bytes, agent_id = :agent_id, run_id = :run_id, updated_at = :now
WHERE workspace_id = :ws AND owner = :owner AND key = :key;

-- name: count
SELECT COUNT(*) AS rows FROM
    (SELECT 1 FROM storage WHERE workspace_id = :ws AND owner = :owner LIMIT :limit) AS counted;

-- name: delete
DELETE FROM storage WHERE workspace_id = :ws AND owner = :owner AND key = :key
RETURNING agent_id, run_id, size_bytes;

-- name: keys
SELECT key FROM storage
WHERE workspace_id = :ws AND owner = :owner AND key >= :low AND key < :high
ORDER BY key LIMIT :limit;
