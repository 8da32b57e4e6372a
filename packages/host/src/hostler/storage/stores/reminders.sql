-- Reminders: the schedules that runs made for their own conversations.

-- name: hold_agent
-- Runs of one agent make theirs one after the other, and none after the agent was deleted.
SELECT agent_id FROM agents WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND deleted_at IS NULL
[postgres FOR UPDATE]

-- name: active
SELECT count(*) AS reminders FROM schedules
WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND (next_planned IS NOT NULL OR paused_at IS NOT NULL)

-- name: active_of_place
-- Those whose names have the beginning of a place; `last` follows all of them.
SELECT * FROM schedules WHERE workspace_id = :workspace_id AND name > :first AND name < :last
    AND (next_planned IS NOT NULL OR paused_at IS NOT NULL)
ORDER BY name LIMIT :limit

-- name: ended
-- Those that fire no more, newest first, but for the first ones.
SELECT name FROM schedules
WHERE workspace_id = :workspace_id AND agent_id = :agent_id AND next_planned IS NULL AND paused_at IS NULL
ORDER BY changed_at DESC, name DESC LIMIT :limit OFFSET :kept

-- name: names
SELECT name FROM schedules WHERE workspace_id = :workspace_id AND agent_id = :agent_id ORDER BY name
