-- A host is a member of its database for one epoch at a time: each time it joins it gets a higher one. A run names the
-- epoch it was claimed in, so that what a host claimed before its lease was over is told from what it claimed since.
ALTER TABLE hosts ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN host_epoch bigint NOT NULL DEFAULT 0;
