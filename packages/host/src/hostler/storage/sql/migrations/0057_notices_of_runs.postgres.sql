-- Notices of ends of runs, for webhooks that want them. pause_id: NULL for these; the inbox has the others.
ALTER TABLE notices ALTER COLUMN pause_id DROP NOT NULL;
DROP INDEX notices_by_pause;
DROP INDEX notices_by_created;
CREATE INDEX notices_by_created ON notices (workspace_id, created_at);
CREATE INDEX notices_inbox ON notices (workspace_id, created_at, notice_id) WHERE pause_id IS NOT NULL;
-- A deletion on request finds the notices of a run by the run: their times may be of a clock that was set.
CREATE INDEX notices_by_run ON notices (workspace_id, run_id);
CREATE INDEX deliveries_by_notice ON deliveries (workspace_id, notice_id);

-- A receiver that is down may have many deliveries: the next of another one is found without a walk through these.
CREATE INDEX deliveries_of_webhook ON deliveries (workspace_id, webhook, next_at, created_at, delivery_id)
    WHERE status = 'pending';
