-- Agents and their versions.

-- name: insert
INSERT INTO agents (workspace_id, name, agent_id, version, created_at, updated_at)
VALUES (:workspace_id, :name, :agent_id, 1, :now, :now)
ON CONFLICT (workspace_id, name) DO NOTHING

-- name: revive
-- A new agent under the name of a deleted one.
UPDATE agents SET agent_id = :agent_id, version = 1, created_at = :now, updated_at = :now, deleted_at = NULL
WHERE workspace_id = :workspace_id AND name = :name AND deleted_at IS NOT NULL

-- name: next_version
UPDATE agents SET version = version + 1, updated_at = :now
WHERE workspace_id = :workspace_id AND name = :name AND deleted_at IS NULL
RETURNING agent_id, version

-- name: insert_version
INSERT INTO agent_versions (workspace_id, agent_id, version, spec, spec_digest, created_at, made_by)
VALUES (:workspace_id, :agent_id, :version, :spec, :spec_digest, :now, :made_by)

-- name: keep_version
INSERT INTO agent_versions (workspace_id, agent_id, version, spec, spec_digest, created_at)
VALUES (:workspace_id, :agent_id, :version, :spec, :spec_digest, :now)
ON CONFLICT (workspace_id, agent_id, version) DO NOTHING

-- name: current
-- Takes no lock: two hosts that apply at once each make a version, one after the other.
SELECT a.name, a.agent_id, a.version, v.spec, v.spec_digest, v.created_at, v.made_by
FROM agents a JOIN agent_versions v
  ON v.workspace_id = a.workspace_id AND v.agent_id = a.agent_id AND v.version = a.version
WHERE a.workspace_id = :workspace_id AND a.name = :name AND a.deleted_at IS NULL

-- name: by_id
SELECT a.name, a.agent_id, a.version, v.spec, v.spec_digest, v.created_at, v.made_by
FROM agents a JOIN agent_versions v
  ON v.workspace_id = a.workspace_id AND v.agent_id = a.agent_id AND v.version = a.version
WHERE a.workspace_id = :workspace_id AND a.agent_id = :agent_id AND a.deleted_at IS NULL

-- name: page
SELECT a.name, a.agent_id, a.version, v.spec, v.spec_digest, v.created_at, v.made_by
FROM agents a JOIN agent_versions v
  ON v.workspace_id = a.workspace_id AND v.agent_id = a.agent_id AND v.version = a.version
WHERE a.workspace_id = :workspace_id AND a.name > :after AND a.deleted_at IS NULL
ORDER BY a.name LIMIT :limit

-- name: names
SELECT name, created_at FROM agents WHERE workspace_id = :workspace_id AND deleted_at IS NULL ORDER BY name LIMIT :limit

-- name: version
SELECT agent_id, version, spec, spec_digest, created_at, made_by FROM agent_versions
WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND version = :version

-- name: versions
SELECT agent_id, version, spec, spec_digest, created_at, made_by FROM agent_versions
WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND version < :before
ORDER BY version DESC LIMIT :limit

-- name: rewrite_version
UPDATE agent_versions SET spec = :spec, spec_digest = :spec_digest
WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND version = :version

-- name: all_versions
SELECT workspace_id, agent_id, version, spec, created_at, made_by FROM agent_versions
WHERE (workspace_id, agent_id, version) > (:ws, :agent_id, :version)
ORDER BY workspace_id, agent_id, version LIMIT :limit

-- name: replace_version
UPDATE agent_versions SET spec = :spec, spec_digest = :spec_digest
WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND version = :version AND spec = :before

-- name: delete
UPDATE agents SET deleted_at = :now, updated_at = :now
WHERE workspace_id = :workspace_id AND name = :name AND deleted_at IS NULL
