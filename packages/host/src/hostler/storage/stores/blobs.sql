-- Blobs and the number of references to each. Blobs belong to no workspace: equal bytes are stored once, and the rows
-- that refer to them decide who may read them.

-- name: reference
INSERT INTO blobs (sha256, size_bytes, refs, created_at) VALUES (:sha256, :size_bytes, 1, :now)
ON CONFLICT (sha256) DO UPDATE SET refs = blobs.refs + 1, unreferenced_at = NULL

-- name: release
UPDATE blobs SET refs = refs - 1, unreferenced_at = CASE WHEN refs = 1 THEN :now ELSE NULL END
WHERE sha256 = :sha256 AND refs > 0

-- name: refs
SELECT refs FROM blobs WHERE sha256 = :sha256

-- name: last_unreferenced
SELECT max(unreferenced_at) AS unreferenced_at FROM blobs WHERE unreferenced_at IS NOT NULL

-- name: unreferenced
SELECT sha256, size_bytes, unreferenced_at FROM blobs
WHERE unreferenced_at <= :until AND (unreferenced_at, sha256) > (:after, :after_sha256)
ORDER BY unreferenced_at, sha256 LIMIT :limit

-- name: doom
-- Renews the mark of a blob that still has no reference.
UPDATE blobs SET unreferenced_at = :now WHERE sha256 = :sha256 AND refs = 0

-- name: forget
DELETE FROM blobs WHERE sha256 = :sha256 AND refs = 0

-- name: known
SELECT 1 AS found FROM blobs WHERE sha256 = :sha256

-- name: names
SELECT sha256 FROM blobs WHERE sha256 > :after ORDER BY sha256 LIMIT :limit
