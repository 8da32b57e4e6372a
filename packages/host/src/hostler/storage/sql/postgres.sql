-- Whose groups are committed.

-- name: add_writer
INSERT INTO writers (writer_id, last_group, started_at)
VALUES (:writer_id, 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)

-- name: remove_writer
DELETE FROM writers WHERE writer_id = :writer_id

-- name: forget_writers
-- Of hosts that were killed. A writer that lives longer than this without a broken commit does not need its row
-- either: finding it gone, it says that it does not know.
DELETE FROM writers WHERE started_at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 31536000000

-- name: last_group
-- Waits until the backend of the broken connection is gone.
SELECT last_group FROM writers WHERE writer_id = :writer_id FOR UPDATE
