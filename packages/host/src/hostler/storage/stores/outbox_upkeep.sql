-- What waits in the outbox: counted, given up, taken back.

-- name: waiting
-- What waits in a channel, and no host is at work on.
SELECT * FROM outbox
WHERE workspace_id = :workspace_id AND channel = :channel AND due_at IS NOT NULL AND lease_until <= :now
ORDER BY due_at LIMIT :limit

-- name: overdue
-- What no host could send for too long.
SELECT * FROM outbox
WHERE workspace_id = :workspace_id AND channel = :channel AND due_at IS NOT NULL AND lease_until <= :now
  AND due_at < :before AND COALESCE(resent_at, created_at) < :before
ORDER BY due_at LIMIT :limit

-- name: give_up
UPDATE outbox
SET status = :status, due_at = NULL, lease_token = NULL, lease_until = 0, settled_at = :now, error = :error
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND due_at IS NOT NULL AND lease_until <= :now

-- name: next_waiting_channel
SELECT MIN(channel) AS channel FROM outbox
WHERE workspace_id = :workspace_id AND channel > :after AND due_at IS NOT NULL

-- name: not_begun_of_run
-- The actions that a run waits for, as far as they are surely not carried out.
SELECT o.* FROM runs AS r
JOIN outbox AS o ON o.workspace_id = r.workspace_id AND o.run_id = :run_id
WHERE r.run_id = :run_id AND o.kind = 'action' AND o.result_sequence IS NULL AND o.status = 'pending'
  AND o.perhaps_sent = 0 AND o.lease_until <= :now
LIMIT :limit

-- name: next_unsent_channel
SELECT MIN(channel) AS channel FROM outbox
WHERE workspace_id = :workspace_id AND channel > :after AND status <> 'sent'

-- name: count_unsent
SELECT count(*) AS number, MIN(created_at) AS oldest FROM (
    SELECT created_at FROM outbox
    WHERE workspace_id = :workspace_id AND channel = :channel AND status = :status AND status <> 'sent'
    ORDER BY created_at LIMIT :limit) AS unsent
