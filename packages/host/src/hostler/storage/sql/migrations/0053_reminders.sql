-- Reminders: schedules that runs made. content: JSON of what they say, whose they are and where their answers go; null for
-- the schedules of people and configuration files, which have all of that in their spec.
ALTER TABLE schedules ADD COLUMN content text;
CREATE INDEX schedules_of_agents ON schedules (workspace_id, agent_id, changed_at) WHERE agent_id IS NOT NULL;
