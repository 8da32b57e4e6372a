-- State values. A deleted value is an empty text with its version.

-- name: get
SELECT value, version FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key AND value <> '';

-- name: put
-- Unconditional.
INSERT INTO states (workspace_id, scope_key, key, scope, value, version, agent_id, conversation_id,
                    actor_type, actor_id, updated_at)
VALUES (:ws, :scope_key, :key, :scope, :value, 1, :agent_id, :conversation_id, :actor_type, :actor_id, :now)
ON CONFLICT (workspace_id, scope_key, key)
DO UPDATE SET value = excluded.value, version = states.version + 1, updated_at = excluded.updated_at
RETURNING version;

-- name: put_absent
-- Only if there is no value.
INSERT INTO states (workspace_id, scope_key, key, scope, value, version, agent_id, conversation_id,
                    actor_type, actor_id, updated_at)
VALUES (:ws, :scope_key, :key, :scope, :value, 1, :agent_id, :conversation_id, :actor_type, :actor_id, :now)
ON CONFLICT (workspace_id, scope_key, key)
DO UPDATE SET value = excluded.value, version = states.version + 1, updated_at = excluded.updated_at
WHERE states.value = ''
RETURNING version;

-- name: put_from_version
UPDATE states SET value = :value, version = version + 1, updated_at = :now
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key
  AND value <> '' AND version = :if_version
RETURNING version;

-- name: delete
UPDATE states SET value = '', version = version + 1, updated_at = :now
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key AND value <> '';

-- name: keys
SELECT key FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND key >= :low AND key < :high AND value <> ''
ORDER BY key LIMIT :limit;

-- name: count
-- Rows of a storage key, including those of deleted values, counted up to :limit.
SELECT COUNT(*) AS rows FROM
    (SELECT 1 FROM states WHERE workspace_id = :ws AND scope_key = :scope_key LIMIT :limit) AS counted;

-- name: withdraw
-- Removes a row that was inserted in the same transaction.
DELETE FROM states WHERE workspace_id = :ws AND scope_key = :scope_key AND key = :key;

-- name: values
SELECT key, value FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND value <> '' AND key > :after
ORDER BY key LIMIT :limit;
