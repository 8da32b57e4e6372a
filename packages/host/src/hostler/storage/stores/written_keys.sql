-- Keys of secrets that are written out in entries, each wrapped by a master key. They belong to no workspace.

-- name: add
INSERT INTO installation (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: all
SELECT name, value FROM installation WHERE name >= :first AND name < :behind ORDER BY name LIMIT :limit

-- name: rewrap
UPDATE installation SET value = :value WHERE name = :name AND value = :before
