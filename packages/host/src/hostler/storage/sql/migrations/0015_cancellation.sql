-- Who cancelled a run first, and when.
ALTER TABLE runs ADD COLUMN cancel_requested_at bigint;
ALTER TABLE runs ADD COLUMN cancel_requested_by text;
