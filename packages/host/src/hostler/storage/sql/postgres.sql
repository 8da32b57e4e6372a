-- Writers and the number of the last group that each has committed.

-- name: add_writer
INSERT INTO writers (writer_id, last_group, started_at)
VALUES (:writer_id, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)

-- name: remove_writer
DELETE FROM writers WHERE writer_id = :writer_id

-- name: forget_writers
-- Rows that killed hosts left. A writer that runs longer than this loses its row too; if a commit of it breaks, it
-- reports that the outcome is not known.
DELETE FROM writers WHERE started_at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 31536000000

-- name: last_group
-- Waits until the backend of the broken connection is gone.
SELECT last_group FROM writers WHERE writer_id = :writer_id FOR UPDATE
