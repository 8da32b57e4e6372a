-- The table of applied migrations.

-- name: create
CREATE TABLE IF NOT EXISTS schema_versions (
    number     bigint PRIMARY KEY,
    name       text NOT NULL,
    version    text NOT NULL,
    applied_at bigint NOT NULL
)

-- name: newest
SELECT number, version FROM schema_versions ORDER BY number DESC LIMIT 1

-- name: record
INSERT INTO schema_versions (number, name, version, applied_at)
VALUES (:number, :name, :version, :applied_at)
