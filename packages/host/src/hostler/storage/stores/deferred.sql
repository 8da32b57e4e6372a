-- Events whose filters could not be evaluated.

-- name: insert
INSERT INTO deferred_events (workspace_id, event_id, tries, next_at, not_before)
VALUES (:ws, :event_id, 1, :next_at, :not_before)
ON CONFLICT (workspace_id, event_id) DO NOTHING

-- name: claim
-- Claimed events are due again at :again_at, if their host does not reschedule them before.
UPDATE deferred_events SET next_at = :again_at WHERE (workspace_id, event_id) IN (
    SELECT workspace_id, event_id FROM deferred_events WHERE next_at <= :now ORDER BY next_at LIMIT :limit
    [postgres FOR UPDATE SKIP LOCKED])
RETURNING *

-- name: retry
UPDATE deferred_events SET tries = tries + 1, next_at = :next_at WHERE workspace_id = :ws AND event_id = :event_id

-- name: postpone
UPDATE deferred_events SET next_at = :next_at WHERE workspace_id = :ws AND event_id = :event_id

-- name: remove
DELETE FROM deferred_events WHERE workspace_id = :ws AND event_id = :event_id

-- name: next_due
SELECT min(next_at) AS due FROM deferred_events

-- name: count
SELECT count(*) AS events FROM (SELECT 1 FROM deferred_events WHERE workspace_id = :ws LIMIT :limit) AS some_of_them

-- name: count_all
SELECT count(*) AS events FROM (SELECT 1 FROM deferred_events LIMIT :limit) AS some_of_them
