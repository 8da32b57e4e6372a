-- Edits of messages that were sent.

-- name: send_instead
UPDATE outbox SET body = :body, status = 'pending', attempts = 0, due_at = :now, lease_token = NULL, lease_until = 0,
    first_sent_at = NULL, perhaps_sent = 0, maybe_twice = 0, send_key = :send_key, message_id = NULL, growing = 0
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND lease_token = :token

-- name: drop_claimed
DELETE FROM outbox WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND lease_token = :token
