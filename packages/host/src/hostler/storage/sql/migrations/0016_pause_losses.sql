-- Attempts that resumed a pause and were lost before they had done anything: they are retried. The column attempts counts
-- those that were lost later or could not start.
ALTER TABLE pauses ADD COLUMN losses bigint NOT NULL DEFAULT 0;
