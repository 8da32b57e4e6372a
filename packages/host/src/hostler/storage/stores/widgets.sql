-- Widgets as they are configured. They are entries of the installation, for any workspace.

-- name: find
SELECT workspace_id, spec FROM settings WHERE kind = 'widget' AND name = :name
