-- Receivers of notifications of one run.

-- name: put
INSERT INTO push_receivers (workspace_id, run_id, receiver_id, receiver, shown, attempts, next_at, lease_until, created_at)
VALUES (:workspace_id, :run_id, :receiver_id, :receiver, '', 0, :now, 0, :now)
ON CONFLICT (workspace_id, run_id, receiver_id) DO UPDATE SET receiver = excluded.receiver

-- name: find
SELECT * FROM push_receivers WHERE workspace_id = :workspace_id AND run_id = :run_id AND receiver_id = :receiver_id

-- name: of_run
SELECT * FROM push_receivers WHERE workspace_id = :workspace_id AND run_id = :run_id AND receiver_id > :after
ORDER BY receiver_id LIMIT :limit

-- name: count
SELECT count(*) AS number FROM push_receivers WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: remove
DELETE FROM push_receivers WHERE workspace_id = :workspace_id AND run_id = :run_id AND receiver_id = :receiver_id

-- name: due
-- Receivers, of all workspaces, of runs whose state is another one than they were told.
SELECT p.workspace_id AS workspace_id, p.run_id AS run_id, p.receiver_id AS receiver_id, p.attempts AS attempts,
       r.status AS status, r.conversation_id AS conversation_id, r.finished_at AS finished_at,
       o.pause_id AS pause_id, o.revision AS revision
FROM push_receivers AS p
JOIN runs AS r ON r.workspace_id = p.workspace_id AND r.run_id = p.run_id
LEFT JOIN pauses AS o ON o.workspace_id = p.workspace_id AND o.run_id = p.run_id AND o.status IN ('open', 'needs_review')
WHERE p.settled_at IS NULL AND p.next_at <= :now AND p.lease_until <= :now
  AND ((r.status IN ('completed', 'failed', 'cancelled', 'timeout') AND p.shown <> r.status)
    OR (o.pause_id IS NOT NULL AND p.shown <> 'paused ' || o.pause_id || ' ' || CAST(o.revision AS text)))
ORDER BY p.next_at LIMIT :limit

-- name: claim
UPDATE push_receivers SET lease_token = :token, lease_until = :lease_until, attempts = attempts + 1
WHERE workspace_id = :workspace_id AND run_id = :run_id AND receiver_id = :receiver_id AND attempts = :attempts
  AND lease_until <= :now

-- name: settle
UPDATE push_receivers
SET shown = :shown, attempts = :attempts, next_at = :next_at, lease_token = NULL, lease_until = 0, error = :error,
    settled_at = :settled_at
WHERE workspace_id = :workspace_id AND run_id = :run_id AND receiver_id = :receiver_id AND lease_token = :token

-- name: retry
UPDATE push_receivers SET next_at = :next_at, lease_token = NULL, lease_until = 0, error = :error
WHERE workspace_id = :workspace_id AND run_id = :run_id AND receiver_id = :receiver_id AND lease_token = :token

-- name: old
SELECT run_id, receiver_id FROM push_receivers
WHERE workspace_id = :workspace_id AND created_at < :before
  AND (settled_at IS NOT NULL OR NOT EXISTS (
    SELECT 1 FROM runs WHERE runs.workspace_id = push_receivers.workspace_id AND runs.run_id = push_receivers.run_id
      AND runs.status NOT IN ('completed', 'failed', 'cancelled', 'timeout')))
LIMIT :limit
