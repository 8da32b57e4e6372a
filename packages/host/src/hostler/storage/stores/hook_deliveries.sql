-- Requests that hooks took, by message and by what was signed.

-- name: signed
SELECT event_id FROM hook_signatures
WHERE workspace_id = :workspace_id AND hook = :hook AND signed_digest = :signed_digest

-- name: insert_signed
INSERT INTO hook_signatures (workspace_id, hook, signed_digest, event_id, created_at)
VALUES (:workspace_id, :hook, :signed_digest, :event_id, :now)
ON CONFLICT (workspace_id, hook, signed_digest) DO NOTHING

-- name: insert
INSERT INTO hook_deliveries (workspace_id, event_id, hook, body_digest, deliveries, conflicts, created_at, last_at)
VALUES (:workspace_id, :event_id, :hook, :body_digest, 1, 0, :now, :now)
ON CONFLICT (workspace_id, event_id) DO NOTHING

-- name: find
SELECT * FROM hook_deliveries WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: repeated
UPDATE hook_deliveries SET deliveries = deliveries + 1, last_at = :now
WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: conflicting
UPDATE hook_deliveries SET conflicts = conflicts + 1, last_at = :now
WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: old
SELECT event_id FROM hook_deliveries
WHERE workspace_id = :workspace_id AND last_at < :before ORDER BY last_at LIMIT :limit

-- name: delete
DELETE FROM hook_deliveries WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: old_signed
SELECT hook, signed_digest FROM hook_signatures
WHERE workspace_id = :workspace_id AND created_at < :before ORDER BY created_at LIMIT :limit

-- name: delete_signed
DELETE FROM hook_signatures
WHERE workspace_id = :workspace_id AND hook = :hook AND signed_digest = :signed_digest

-- name: event
SELECT event_id FROM events WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: replace_body
UPDATE hook_deliveries SET body_digest = :body_digest, last_at = :now
WHERE workspace_id = :workspace_id AND event_id = :event_id
