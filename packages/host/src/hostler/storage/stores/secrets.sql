-- Stored secrets. No statement but those of the store itself selects a value.

-- name: put
INSERT INTO secrets (workspace_id, owner, name, version, data_key, value, set_by, set_at, created_at)
VALUES (:workspace_id, :owner, :name, 1, :data_key, :value, :actor, :now, :now)
ON CONFLICT (workspace_id, owner, name) DO UPDATE SET version = secrets.version + 1,
    data_key = excluded.data_key, value = excluded.value, set_by = excluded.set_by, set_at = excluded.set_at
RETURNING version

-- name: count
SELECT count(*) AS secrets FROM secrets WHERE workspace_id = :workspace_id AND owner = :owner

-- name: sealed
SELECT workspace_id, owner, name, version, data_key, value FROM secrets
WHERE workspace_id = :workspace_id AND owner = :owner AND name = :name

-- name: all_sealed
SELECT workspace_id, owner, name, version, data_key, value FROM secrets
WHERE workspace_id = :workspace_id AND owner = :owner ORDER BY name LIMIT :limit

-- name: find
SELECT name, version, set_by, set_at, created_at, used_by, used_at FROM secrets
WHERE workspace_id = :workspace_id AND owner = :owner AND name = :name

-- name: page
SELECT name, version, set_by, set_at, created_at, used_by, used_at FROM secrets
WHERE workspace_id = :workspace_id AND owner = :owner AND name > :after ORDER BY name LIMIT :limit

-- name: key_ids
SELECT name, substr(data_key, 2, 8) AS key_id FROM secrets
WHERE workspace_id = :workspace_id AND owner = :owner ORDER BY name LIMIT :limit

-- name: delete
DELETE FROM secrets WHERE workspace_id = :workspace_id AND owner = :owner AND name = :name

-- name: mark_used
UPDATE secrets SET used_by = :user, used_at = :now
WHERE workspace_id = :workspace_id AND owner = :owner AND name = :name

-- name: wrapped_by_others
SELECT workspace_id, owner, name, version, data_key, value FROM secrets
WHERE substr(data_key, 2, 8) <> :key_id AND (workspace_id, owner, name) > (:ws, :owner, :name)
ORDER BY workspace_id, owner, name LIMIT :limit

-- name: rewrap
UPDATE secrets SET data_key = :data_key
WHERE workspace_id = :workspace_id AND owner = :owner AND name = :name AND data_key = :before

-- name: key_uses
SELECT substr(data_key, 2, 8) AS key_id, count(*) AS secrets FROM secrets GROUP BY substr(data_key, 2, 8)
