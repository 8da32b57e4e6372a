-- Unfinished uploads and their parts, each a separate blob.

-- name: begin
INSERT INTO uploads (workspace_id, upload_id, run_id, agent_id, next_part, size_bytes, created_at)
VALUES (:ws, :upload_id, :run_id, :agent_id, 1, :size_bytes, :now)

-- name: find
SELECT next_part, size_bytes FROM uploads WHERE workspace_id = :ws AND upload_id = :upload_id AND run_id = :run_id

-- name: open_of_run
SELECT COUNT(*) AS uploads FROM uploads WHERE workspace_id = :ws AND run_id = :run_id

-- name: advance
-- Only if the part is the expected one.
UPDATE uploads SET next_part = :part + 1, size_bytes = size_bytes + :size_bytes
WHERE workspace_id = :ws AND upload_id = :upload_id AND run_id = :run_id AND next_part = :part

-- name: add_part
INSERT INTO upload_parts (workspace_id, upload_id, part, sha256, size_bytes, stored_as)
VALUES (:ws, :upload_id, :part, :sha256, :size_bytes, :stored_as)

-- name: parts
SELECT part, sha256, size_bytes, stored_as FROM upload_parts WHERE workspace_id = :ws AND upload_id = :upload_id ORDER BY part

-- name: part
SELECT sha256 FROM upload_parts WHERE workspace_id = :ws AND upload_id = :upload_id AND part = :part

-- name: expected
-- The upload, if the part is the expected one; others that continue or end it wait.
SELECT agent_id, run_id, size_bytes FROM uploads
WHERE workspace_id = :ws AND upload_id = :upload_id AND run_id = :run_id AND next_part = :part[postgres FOR UPDATE]

-- name: delete
DELETE FROM uploads WHERE workspace_id = :ws AND upload_id = :upload_id RETURNING agent_id, run_id, size_bytes

-- name: end
DELETE FROM uploads WHERE workspace_id = :ws AND upload_id = :upload_id

-- name: delete_parts
DELETE FROM upload_parts WHERE workspace_id = :ws AND upload_id = :upload_id
