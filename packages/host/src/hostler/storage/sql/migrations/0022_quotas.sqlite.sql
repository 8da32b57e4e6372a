-- Quotas: what is stored per workspace (owner ''), agent and run, changed in the transaction that stores or removes it.
CREATE TABLE quota_use (
    workspace_id   [key] NOT NULL,
    level          [key] NOT NULL,   -- workspace | agent | run
    owner_id       [key] NOT NULL,
    artifacts      bigint NOT NULL,
    artifact_bytes bigint NOT NULL,
    storage_values bigint NOT NULL,
    storage_bytes  bigint NOT NULL,
    state_bytes    bigint NOT NULL,
    PRIMARY KEY (workspace_id, level, owner_id)
) [without_rowid];
CREATE INDEX quota_use_workspaces ON quota_use (workspace_id) WHERE level = 'workspace';

-- Whose run stored it, and what it counts.
ALTER TABLE artifacts ADD COLUMN agent_id [key];
ALTER TABLE uploads ADD COLUMN agent_id [key];
ALTER TABLE storage ADD COLUMN agent_id [key];
ALTER TABLE storage ADD COLUMN run_id [key];
ALTER TABLE storage ADD COLUMN size_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE states ADD COLUMN size_bytes bigint NOT NULL DEFAULT 0;
UPDATE artifacts SET agent_id = (SELECT r.agent_id FROM runs AS r WHERE r.run_id = artifacts.run_id)
WHERE run_id IS NOT NULL;
UPDATE uploads SET agent_id = (SELECT r.agent_id FROM runs AS r WHERE r.run_id = uploads.run_id);
UPDATE storage SET size_bytes = length(value);
UPDATE states SET size_bytes = 100 + length(CAST(key AS blob)) + length(CAST(value AS blob));

CREATE TEMPORARY TABLE kept AS
SELECT workspace_id, agent_id, run_id, 1 AS artifacts,
       CASE WHEN registered_path IS NULL THEN size_bytes ELSE 0 END AS artifact_bytes,
       0 AS storage_values, 0 AS storage_bytes, 0 AS state_bytes
FROM artifacts
UNION ALL SELECT workspace_id, agent_id, run_id, 1, size_bytes, 0, 0, 0 FROM uploads
UNION ALL SELECT workspace_id, NULL, NULL, 0, 0, 1, size_bytes, 0 FROM storage
UNION ALL SELECT workspace_id, agent_id, NULL, 0, 0, 0, 0, size_bytes FROM states;
INSERT INTO quota_use
SELECT workspace_id, 'workspace', '', SUM(artifacts), SUM(artifact_bytes), SUM(storage_values), SUM(storage_bytes),
       SUM(state_bytes)
FROM kept GROUP BY workspace_id;
INSERT INTO quota_use
SELECT workspace_id, 'agent', agent_id, SUM(artifacts), SUM(artifact_bytes), SUM(storage_values), SUM(storage_bytes),
       SUM(state_bytes)
FROM kept WHERE agent_id IS NOT NULL GROUP BY workspace_id, agent_id;
INSERT INTO quota_use
SELECT workspace_id, 'run', run_id, SUM(artifacts), SUM(artifact_bytes), SUM(storage_values), SUM(storage_bytes),
       SUM(state_bytes)
FROM kept WHERE run_id IS NOT NULL GROUP BY workspace_id, run_id;
DROP TABLE kept;
