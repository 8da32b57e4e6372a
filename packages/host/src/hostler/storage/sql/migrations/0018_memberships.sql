-- A host joins its database for one epoch at a time, and each epoch is higher than the one before. A run stores the epoch
-- in which it was claimed, to tell runs that a host claimed before its lease expired from those it claimed since.
ALTER TABLE hosts ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN host_epoch bigint NOT NULL DEFAULT 0;
