-- Notices of pauses and of ends of runs: the inbox, and deliveries to webhooks.

-- name: insert
INSERT INTO notices (workspace_id, notice_id, event, pause_id, run_id, conversation_id, body, created_at)
VALUES (:workspace_id, :notice_id, :event, :pause_id, :run_id, :conversation_id, :body, :now)

-- name: insert_delivery
INSERT INTO deliveries (workspace_id, delivery_id, notice_id, webhook, event, status, attempts, next_at, lease_until,
                        created_at)
VALUES (:workspace_id, :delivery_id, :notice_id, :webhook, :event, 'pending', 0, :now, 0, :now)

-- name: calls
SELECT call_id, kind, decision FROM pause_calls
WHERE workspace_id = :workspace_id AND pause_id = :pause_id ORDER BY ordinal LIMIT :limit

-- name: page
-- The inbox.
SELECT * FROM notices
WHERE workspace_id = :workspace_id AND pause_id IS NOT NULL
  AND (created_at < :before_at OR (created_at = :before_at AND notice_id < :before_id))
ORDER BY created_at DESC, notice_id DESC LIMIT :limit

-- name: due
-- Webhooks with a delivery that is due now, by a walk over the index whose cost grows with the webhooks, not with the
-- deliveries that wait.
WITH RECURSIVE places (workspace_id) AS (
    SELECT min(workspace_id) FROM deliveries WHERE status = 'pending'
    UNION ALL
    SELECT (SELECT min(d.workspace_id) FROM deliveries d
            WHERE d.status = 'pending' AND d.workspace_id > places.workspace_id)
    FROM places WHERE places.workspace_id IS NOT NULL
), receivers (workspace_id, webhook) AS (
    SELECT places.workspace_id, (SELECT min(d.webhook) FROM deliveries d
                                 WHERE d.status = 'pending' AND d.workspace_id = places.workspace_id)
    FROM places WHERE places.workspace_id IS NOT NULL
    UNION ALL
    SELECT receivers.workspace_id, (SELECT min(d.webhook) FROM deliveries d
                                    WHERE d.status = 'pending' AND d.workspace_id = receivers.workspace_id
                                      AND d.webhook > receivers.webhook)
    FROM receivers WHERE receivers.webhook IS NOT NULL
)
SELECT workspace_id, webhook FROM receivers
WHERE EXISTS (SELECT 1 FROM deliveries d
              WHERE d.workspace_id = receivers.workspace_id AND d.webhook = receivers.webhook AND d.status = 'pending'
                AND d.next_at <= :now AND d.lease_until <= :now)
LIMIT :limit

-- name: next_due
-- When the next delivery becomes due. The next search finds those whose lease has expired.
SELECT min(next_at) AS at FROM deliveries WHERE status = 'pending' AND next_at > :now

-- name: first_due
SELECT deliveries.*, notices.body AS body FROM deliveries
JOIN notices ON notices.workspace_id = deliveries.workspace_id AND notices.notice_id = deliveries.notice_id
WHERE deliveries.workspace_id = :workspace_id AND deliveries.webhook = :webhook AND deliveries.status = 'pending'
  AND deliveries.next_at <= :now AND deliveries.lease_until <= :now
ORDER BY deliveries.next_at, deliveries.created_at, deliveries.delivery_id LIMIT 1

-- name: claim
UPDATE deliveries SET lease_token = :token, lease_until = :lease_until, attempts = attempts + 1
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND status = 'pending'
  AND attempts = :attempts AND lease_until <= :now

-- name: settle
UPDATE deliveries
SET status = :status, http_status = :http_status, error = :error, next_at = :next_at, lease_token = NULL,
    lease_until = 0, settled_at = :settled_at
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND lease_token = :token

-- name: deliveries
SELECT * FROM deliveries
WHERE workspace_id = :workspace_id AND (CAST(:status AS text) IS NULL OR status = :status)
  AND (CAST(:webhook AS text) IS NULL OR webhook = :webhook)
  AND (created_at < :before_at OR (created_at = :before_at AND delivery_id < :before_id))
ORDER BY created_at DESC, delivery_id DESC LIMIT :limit

-- name: find_delivery
SELECT * FROM deliveries WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id

-- name: send_again
UPDATE deliveries SET status = 'pending', attempts = 0, next_at = :now, settled_at = NULL
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND status <> 'pending'

-- name: drop_deliveries_of_run
DELETE FROM deliveries WHERE workspace_id = :workspace_id AND notice_id IN (
    SELECT notice_id FROM notices WHERE workspace_id = :workspace_id AND run_id = :run_id)

-- name: drop_notices_of_run
DELETE FROM notices WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: overdue
-- Deliveries whose turn did not come for too long.
SELECT workspace_id, delivery_id FROM deliveries
WHERE status = 'pending' AND next_at < :before AND lease_until <= :now ORDER BY next_at LIMIT :limit

-- name: give_up
UPDATE deliveries SET status = 'dead', error = :error, lease_token = NULL, lease_until = 0, settled_at = :now
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND status = 'pending'
  AND next_at < :before AND lease_until <= :now

-- name: old_deliveries
SELECT delivery_id FROM deliveries
WHERE workspace_id = :workspace_id AND status <> 'pending' AND created_at < :before ORDER BY created_at LIMIT :limit

-- name: drop_delivery
DELETE FROM deliveries WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND status <> 'pending'

-- name: old_notices
SELECT notice_id FROM notices
WHERE workspace_id = :workspace_id AND created_at < :before
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE deliveries.workspace_id = notices.workspace_id
                  AND deliveries.notice_id = notices.notice_id)
ORDER BY created_at LIMIT :limit

-- name: drop_notice
DELETE FROM notices WHERE workspace_id = :workspace_id AND notice_id = :notice_id
