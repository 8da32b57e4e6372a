-- perhaps_sent: at least once nobody knew whether the platform has it. resent_at: when an operator had it sent again.
ALTER TABLE outbox ADD COLUMN perhaps_sent bigint NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN resent_at bigint;
UPDATE outbox SET perhaps_sent = 1
WHERE due_at IS NOT NULL AND (first_sent_at IS NOT NULL OR maybe_twice = 1);
CREATE INDEX outbox_unsent ON outbox (workspace_id, channel, status, created_at) WHERE status <> 'sent';
