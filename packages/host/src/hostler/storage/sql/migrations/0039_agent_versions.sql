-- Who made a version of an agent; NULL for those made before this was recorded.
ALTER TABLE agent_versions ADD COLUMN made_by text;
