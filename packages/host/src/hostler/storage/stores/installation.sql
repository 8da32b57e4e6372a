-- Keys of this installation; they belong to no workspace.

-- name: add
INSERT INTO installation (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: put
INSERT INTO installation (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value

-- name: find
SELECT value FROM installation WHERE name = :name

-- name: remove
DELETE FROM installation WHERE name = :name
