-- Messages to be sent through channels.

-- name: insert
INSERT INTO outbox (workspace_id, delivery_id, channel, chat, position, kind, body, send_key, status, attempts, due_at,
                    lease_until, error, maybe_twice, conversation_id, event_id, run_id, result_sequence, created_at,
                    settled_at, growing, version)
VALUES (:workspace_id, :delivery_id, :channel, :chat, :position, :kind, :body, :send_key, :status, 0, :due_at,
        0, :error, 0, :conversation_id, :event_id, :run_id, :result_sequence, :now, :settled_at,
        :growing, :growing)
ON CONFLICT (workspace_id, delivery_id) DO NOTHING

-- name: last_position
SELECT MAX(position) AS position FROM outbox
WHERE workspace_id = :workspace_id AND channel = :channel AND chat = :chat

-- name: count_waiting
SELECT count(*) AS number FROM (
    SELECT 1 FROM outbox WHERE workspace_id = :workspace_id AND channel = :channel AND chat = :chat
      AND due_at IS NOT NULL LIMIT :limit) AS waiting

-- name: heads
-- The first message of each chat that waits, if the host may work on it now. A lease that has ended means that its host
-- died while it sent.
SELECT delivery_id, chat FROM outbox AS o
WHERE o.workspace_id = :workspace_id AND o.channel = :channel AND o.due_at <= :now AND o.lease_until <= :now
  AND NOT EXISTS (
    SELECT 1 FROM outbox AS e
    WHERE e.workspace_id = o.workspace_id AND e.channel = o.channel AND e.chat = o.chat AND e.due_at IS NOT NULL
      AND (e.position, e.delivery_id) < (o.position, o.delivery_id))
ORDER BY o.due_at, o.delivery_id LIMIT :limit

-- name: claim
UPDATE outbox
SET status = :status, attempts = attempts + :more, host_id = :host_id, lease_token = :token, lease_until = :lease_until,
    first_sent_at = COALESCE(first_sent_at, :sent_at), maybe_twice = :maybe_twice, perhaps_sent = :perhaps_sent,
    growing = :growing
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND due_at <= :now AND lease_until <= :now

-- name: settle
-- Of an answer that grows, a text that became newer meanwhile is due at once; after the final one it is like any other.
-- One in doubt is left to people only if its text is the final one: the whole was completed while it was looked at.
UPDATE outbox
SET status = :status, lease_token = NULL, lease_until = 0,
    due_at = CASE WHEN growing > 0 AND cast(:status AS text) = 'sent' AND version > :shown THEN cast(:now AS bigint)
                  WHEN growing = 2 AND cast(:status AS text) = 'in_doubt' AND version > :claimed
                  THEN COALESCE(cast(:due_at AS bigint), cast(:now AS bigint))
                  ELSE cast(:due_at AS bigint) END,
    attempts = CASE WHEN growing > 0 AND cast(:status AS text) = 'sent' THEN 0 ELSE attempts - :uncounted END,
    error = :error, result = COALESCE(:result, result), message_id = COALESCE(:message_id, message_id),
    settled_at = cast(:settled_at AS bigint), maybe_twice = CASE WHEN :twice = 1 THEN 1 ELSE maybe_twice END,
    perhaps_sent = CASE WHEN growing > 0 AND cast(:status AS text) = 'sent' THEN 0 WHEN :doubt = 1 THEN 1 ELSE perhaps_sent END,
    shown = CASE WHEN growing > 0 AND cast(:status AS text) = 'sent' THEN :shown ELSE shown END,
    growing = CASE WHEN growing = 2 AND (cast(:status AS text) = 'failed' OR (cast(:status AS text) = 'sent' AND version <= :shown)) THEN 0
                   ELSE growing END
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND lease_token = :token

-- name: release
-- What this host was sending when it ended: its lock proves that the process of then is gone.
UPDATE outbox SET lease_until = 0
WHERE workspace_id = :workspace_id AND channel = :channel AND host_id = :host_id AND lease_until > 0
  AND due_at IS NOT NULL

-- name: find
SELECT * FROM outbox WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id

-- name: page
SELECT * FROM outbox
WHERE workspace_id = :workspace_id AND (CAST(:status AS text) IS NULL OR status = :status)
  AND (CAST(:channel AS text) IS NULL OR channel = :channel)
  AND (CAST(:run_id AS text) IS NULL OR run_id = :run_id)
  AND (created_at < :before_at OR (created_at = :before_at AND delivery_id < :before_id))
ORDER BY created_at DESC, delivery_id DESC LIMIT :limit

-- name: resend
UPDATE outbox
SET status = 'pending', attempts = 0, due_at = :now, settled_at = NULL, lease_token = NULL, lease_until = 0,
    maybe_twice = CASE WHEN status IN ('in_doubt', 'sent') THEN 1 ELSE maybe_twice END, resent_at = :now,
    perhaps_sent = CASE WHEN status IN ('in_doubt', 'sent') THEN 1 ELSE perhaps_sent END
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND due_at IS NULL

-- name: drop
DELETE FROM outbox
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND lease_until <= :now

-- name: withdraw
-- What nobody waits for any more, if it was surely not sent or carried out.
DELETE FROM outbox
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND status = 'pending' AND perhaps_sent = 0
  AND lease_until <= :now

-- name: drop_of_run
DELETE FROM outbox WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: drop_of_conversation
DELETE FROM outbox
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id AND created_at <= :until

-- name: drop_own_words
-- What the host itself said: it is no part of a run.
DELETE FROM outbox WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id AND run_id IS NULL

-- name: old
SELECT delivery_id FROM outbox
WHERE workspace_id = :workspace_id AND created_at < :before AND due_at IS NULL
ORDER BY created_at, delivery_id LIMIT :limit
