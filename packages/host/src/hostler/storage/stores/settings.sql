-- Configuration other than agents.

-- name: put
INSERT INTO settings (workspace_id, kind, name, spec, updated_at)
VALUES (:workspace_id, :kind, :name, :spec, :now)
ON CONFLICT (workspace_id, kind, name) DO UPDATE SET spec = excluded.spec, updated_at = excluded.updated_at
WHERE settings.spec <> excluded.spec

-- name: find
SELECT kind, name, spec, updated_at FROM settings
WHERE workspace_id = :workspace_id AND kind = :kind AND name = :name

-- name: page
SELECT kind, name, spec, updated_at FROM settings
WHERE workspace_id = :workspace_id AND kind = :kind AND name > :after ORDER BY name LIMIT :limit

-- name: replace
UPDATE settings SET spec = :spec
WHERE workspace_id = :workspace_id AND kind = :kind AND name = :name AND spec = :before

-- name: delete
DELETE FROM settings WHERE workspace_id = :workspace_id AND kind = :kind AND name = :name
