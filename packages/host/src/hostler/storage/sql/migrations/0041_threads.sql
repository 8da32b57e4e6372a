-- Metadata of conversations are searched, latest first.
CREATE INDEX states_of_conversations ON states (workspace_id, updated_at) WHERE agent_id = 'conversations';

-- Whose data a copy is: who sent the original, or what it answers, and whom that was about. So it is found after the
-- original was deleted.
ALTER TABLE copies ADD COLUMN actor_type [key];
ALTER TABLE copies ADD COLUMN actor_id [key];
ALTER TABLE copies ADD COLUMN subject_type [key];
ALTER TABLE copies ADD COLUMN subject_id [key];
CREATE INDEX copies_by_actor ON copies (workspace_id, actor_id) WHERE actor_id IS NOT NULL;
CREATE INDEX copies_by_subject ON copies (workspace_id, subject_id) WHERE subject_id IS NOT NULL;
UPDATE copies SET actor_type = e.actor_type, actor_id = e.actor_id, subject_type = e.subject_type,
                  subject_id = e.subject_id
FROM events AS e
WHERE e.workspace_id = copies.workspace_id AND e.event_id = COALESCE(
    copies.event_id, (SELECT r.event_id FROM runs AS r WHERE r.run_id = copies.run_id));
