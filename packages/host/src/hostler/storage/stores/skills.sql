-- Skills: the recorded or confirmed version, and the one seen last.

-- name: page
SELECT * FROM skills WHERE workspace_id = :workspace_id ORDER BY name LIMIT :limit

-- name: find
SELECT * FROM skills WHERE workspace_id = :workspace_id AND name = :name

-- name: record
INSERT INTO skills (workspace_id, name, source, version, digest, seen_version, seen_digest, recorded_at)
VALUES (:workspace_id, :name, :source, :version, :digest, :version, :digest, :now)

-- name: see
UPDATE skills SET source = :source, seen_version = :version, seen_digest = :digest
WHERE workspace_id = :workspace_id AND name = :name

-- name: confirm
UPDATE skills
SET version = seen_version, digest = seen_digest, confirmed_at = :now, confirmed_by = CAST(:actor AS text)
WHERE workspace_id = :workspace_id AND name = :name AND seen_digest = :digest
