-- Answers that grow by edits. growing: 0: a message like others; 1: more is to come; 2: its text is final, and the platform
-- may have an earlier one. version: of its text, shown: the version that the platform has.
ALTER TABLE outbox ADD COLUMN growing bigint NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN shown bigint NOT NULL DEFAULT 0;
CREATE INDEX outbox_growing ON outbox (run_id, position) WHERE growing = 1;
