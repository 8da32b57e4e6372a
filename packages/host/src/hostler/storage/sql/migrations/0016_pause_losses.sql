-- Attempts that went on with a pause and were lost before they had done anything: they are begun again. Those counted
-- in attempts were lost later, or could not be begun.
ALTER TABLE pauses ADD COLUMN losses bigint NOT NULL DEFAULT 0;
