-- Which blobs there are and how often they are named. Blobs belong to no workspace: equal bytes are stored once,
-- and only what names them says who may read them.

-- name: reference
INSERT INTO blobs (sha256, size_bytes, refs, created_at) VALUES (:sha256, :size_bytes, 1, :now)
ON CONFLICT (sha256) DO UPDATE SET refs = blobs.refs + 1, unreferenced_at = NULL

-- name: release
UPDATE blobs SET refs = refs - 1, unreferenced_at = CASE WHEN refs = 1 THEN :now ELSE NULL END
WHERE sha256 = :sha256 AND refs > 0

-- name: refs
SELECT refs FROM blobs WHERE sha256 = :sha256

-- name: unreferenced
SELECT sha256, size_bytes FROM blobs WHERE unreferenced_at < :before ORDER BY unreferenced_at LIMIT :limit

-- name: forget
-- Only while nothing names it.
DELETE FROM blobs WHERE sha256 = :sha256 AND refs = 0 AND unreferenced_at < :before

-- name: known
SELECT 1 AS found FROM blobs WHERE sha256 = :sha256
