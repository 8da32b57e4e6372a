-- State values. A deleted value is an empty text with its version.

-- name: get
SELECT value, version FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key AND value <> '';

-- name: held
-- The row of a key, without its value; others that write it wait.
SELECT version, value = '' AS is_deleted, agent_id, size_bytes FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key[postgres FOR UPDATE];

-- name: insert
INSERT INTO states (workspace_id, scope_key, key, scope, value, size_bytes, version, agent_id, conversation_id,
                    actor_type, actor_id, updated_at)
VALUES (:ws, :scope_key, :key, :scope, :value, :size_bytes, 1, :agent_id, :conversation_id,
        :actor_type, :actor_id, :now)
ON CONFLICT (workspace_id, scope_key, key) DO NOTHING
RETURNING version;

-- name: update
UPDATE states SET value = :value, size_bytes = :size_bytes, version = version + 1, updated_at = :now
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key
RETURNING version;

-- name: delete
UPDATE states SET value = '', size_bytes = :size_bytes, version = version + 1, updated_at = :now
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key;

-- name: keys
SELECT key FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND key >= :low AND key < :high AND value <> ''
ORDER BY key LIMIT :limit;

-- name: count
-- Rows of a storage key, including those of deleted values, counted up to :limit.
SELECT COUNT(*) AS rows FROM
    (SELECT 1 FROM states WHERE workspace_id = :ws AND scope_key = :scope_key LIMIT :limit) AS counted;

-- name: values
SELECT key, value FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND value <> '' AND key > :after
ORDER BY key LIMIT :limit;
