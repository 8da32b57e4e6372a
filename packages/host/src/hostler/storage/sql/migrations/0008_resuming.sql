-- The recording of an attempt is the journal of the attempts since base_attempt. A resumed attempt keeps it; one that
-- starts anew is its own base and has no recording.
ALTER TABLE runs ADD COLUMN base_attempt bigint NOT NULL DEFAULT 1;
