-- Platform actions are rows of the outbox, too (kind: action). result: JSON of what the platform answered.
ALTER TABLE outbox ADD COLUMN result text;
