-- What is stored, per workspace, agent and run: changed in the transaction that stores or removes it. Rows are locked
-- last in a transaction and in the order of their keys, so that groups of several hosts wait for each other instead of
-- deadlocking.

-- name: of_accounts
-- The rows of a workspace, of an agent and of a run.
SELECT level, owner_id, artifacts, artifact_bytes, storage_values, storage_bytes, state_bytes FROM quota_use
WHERE workspace_id = :ws AND (level, owner_id) IN (VALUES ('workspace', ''), ('agent', :agent_id), ('run', :run_id))

-- name: add
-- Returns the sums, and locks the row until the transaction ends.
INSERT INTO quota_use (workspace_id, level, owner_id, artifacts, artifact_bytes, storage_values, storage_bytes,
                       state_bytes)
VALUES (:ws, :level, :owner_id, :artifacts, :artifact_bytes, :storage_values, :storage_bytes, :state_bytes)
ON CONFLICT (workspace_id, level, owner_id) DO UPDATE SET
    artifacts = quota_use.artifacts + excluded.artifacts,
    artifact_bytes = quota_use.artifact_bytes + excluded.artifact_bytes,
    storage_values = quota_use.storage_values + excluded.storage_values,
    storage_bytes = quota_use.storage_bytes + excluded.storage_bytes,
    state_bytes = quota_use.state_bytes + excluded.state_bytes
RETURNING artifacts, artifact_bytes, storage_values, storage_bytes, state_bytes

-- name: drop
DELETE FROM quota_use WHERE workspace_id = :ws AND level = :level AND owner_id = :owner_id

-- name: page
-- The rows of one level in order, those after :after.
SELECT owner_id, artifacts, artifact_bytes, storage_values, storage_bytes, state_bytes FROM quota_use
WHERE workspace_id = :ws AND level = :level AND owner_id > :after ORDER BY owner_id LIMIT :limit

-- name: totals
-- Of all workspaces, for metrics and for a look at those that are nearly full.
SELECT workspace_id, artifacts, artifact_bytes, storage_values, storage_bytes, state_bytes FROM quota_use
WHERE level = 'workspace' ORDER BY workspace_id LIMIT :limit

-- name: of_workspace
SELECT level, owner_id, artifacts, artifact_bytes, storage_values, storage_bytes, state_bytes FROM quota_use
WHERE workspace_id = :ws

-- name: hold
-- Locks the rows of a workspace in the order of their keys.
SELECT owner_id FROM quota_use WHERE workspace_id = :ws ORDER BY level, owner_id[postgres FOR UPDATE]

-- name: counted
-- The same sums, from the rows themselves. Files in place take no room.
WITH kept AS (
    SELECT agent_id, run_id, 1 AS artifacts,
           CASE WHEN registered_path IS NULL THEN size_bytes ELSE 0 END AS artifact_bytes,
           0 AS storage_values, 0 AS storage_bytes, 0 AS state_bytes
    FROM artifacts WHERE workspace_id = :ws
    UNION ALL
    SELECT agent_id, run_id, 1, size_bytes, 0, 0, 0 FROM uploads WHERE workspace_id = :ws
    UNION ALL
    SELECT NULL, NULL, 1, size_bytes, 0, 0, 0 FROM knowledge_versions WHERE workspace_id = :ws AND state NOT IN ('gone', 'removed')
    UNION ALL
    SELECT agent_id, run_id, 0, 0, 1, size_bytes, 0 FROM storage WHERE workspace_id = :ws
    UNION ALL
    SELECT agent_id, NULL, 0, 0, 0, 0, size_bytes FROM states WHERE workspace_id = :ws
), owned AS (
    SELECT 'workspace' AS level, '' AS owner_id, k.artifacts, k.artifact_bytes, k.storage_values, k.storage_bytes,
           k.state_bytes
    FROM kept AS k
    UNION ALL
    SELECT 'agent', k.agent_id, k.artifacts, k.artifact_bytes, k.storage_values, k.storage_bytes, k.state_bytes
    FROM kept AS k WHERE k.agent_id IS NOT NULL
    UNION ALL
    SELECT 'run', k.run_id, k.artifacts, k.artifact_bytes, k.storage_values, k.storage_bytes, k.state_bytes
    FROM kept AS k WHERE k.run_id IS NOT NULL
)
SELECT level, owner_id, CAST(SUM(artifacts) AS bigint) AS artifacts,
       CAST(SUM(artifact_bytes) AS bigint) AS artifact_bytes,
       CAST(SUM(storage_values) AS bigint) AS storage_values, CAST(SUM(storage_bytes) AS bigint) AS storage_bytes,
       CAST(SUM(state_bytes) AS bigint) AS state_bytes
FROM owned GROUP BY level, owner_id

-- name: storing
-- Workspaces that have rows, or counters, after :after.
SELECT DISTINCT workspace_id FROM (
    SELECT workspace_id FROM quota_use WHERE workspace_id > :after
    UNION SELECT workspace_id FROM artifacts WHERE workspace_id > :after
    UNION SELECT workspace_id FROM uploads WHERE workspace_id > :after
    UNION SELECT workspace_id FROM knowledge_versions WHERE workspace_id > :after
    UNION SELECT workspace_id FROM storage WHERE workspace_id > :after
    UNION SELECT workspace_id FROM states WHERE workspace_id > :after
) AS storing ORDER BY workspace_id LIMIT :limit
