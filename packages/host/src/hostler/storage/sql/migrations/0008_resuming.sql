-- What an attempt goes on from: the journal of the attempts since base_attempt is its recording. A resumed attempt keeps
-- it; one that begins again has none, and is its own base.
ALTER TABLE runs ADD COLUMN base_attempt bigint NOT NULL DEFAULT 1;
