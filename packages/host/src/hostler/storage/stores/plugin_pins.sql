-- Pins of plugins, and the locks of their requirements.

-- name: find
SELECT * FROM plugin_pins WHERE workspace_id = :ws AND plugin = :plugin

-- name: record
-- As seen by the host; confirmed by nobody yet.
INSERT INTO plugin_pins (workspace_id, plugin, source, version, requires, files, recorded_at)
VALUES (:ws, :plugin, :source, :version, :requires, :files, :now)
ON CONFLICT (workspace_id, plugin) DO UPDATE SET
    source = excluded.source, version = excluded.version, requires = excluded.requires, files = excluded.files,
    recorded_at = excluded.recorded_at, confirmed_at = NULL, confirmed_by = NULL

-- name: confirm
UPDATE plugin_pins
SET source = :source, version = :version, requires = :requires, files = :files, confirmed_at = :now,
    confirmed_by = CAST(:actor AS text)
WHERE workspace_id = :ws AND plugin = :plugin

-- name: of_source
SELECT plugin FROM plugin_pins WHERE workspace_id = :ws AND source = :source

-- name: forget
DELETE FROM plugin_pins WHERE workspace_id = :ws AND plugin = :plugin

-- name: lock
SELECT plan FROM plugin_locks WHERE workspace_id = :ws AND plugin = :plugin AND target = :target

-- name: put_lock
-- The first of several hosts decides.
INSERT INTO plugin_locks (workspace_id, plugin, target, plan, created_at)
VALUES (:ws, :plugin, :target, :plan, :now)
ON CONFLICT (workspace_id, plugin, target) DO NOTHING

-- name: drop_locks
DELETE FROM plugin_locks WHERE workspace_id = :ws AND plugin = :plugin
