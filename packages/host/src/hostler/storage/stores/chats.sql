-- Chats of channels: which of them are private, and whose.

-- name: find
SELECT conversation_id, channel, channel_of, bot_id, person_id FROM chats
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id

-- name: insert
INSERT INTO chats (workspace_id, conversation_id, channel, channel_of, bot_id, person_id, after_seq)
VALUES (:workspace_id, :conversation_id, :channel, :channel_of, :bot_id, :person_id, :after_seq)
ON CONFLICT (workspace_id, conversation_id) DO NOTHING

-- name: update
-- A chat that has no person gets none: another host may have seen that it is a group.
UPDATE chats SET channel_of = :channel_of, bot_id = :bot_id,
    person_id = CASE WHEN person_id = CAST(:person_id AS text) THEN person_id END
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id

-- name: of_person
-- The private chats of an account, in which an agent has had one of the last runs.
SELECT c.bot_id, c.conversation_id, c.after_seq FROM chats AS c
WHERE c.workspace_id = :workspace_id AND c.channel = :channel AND c.person_id = :person_id AND c.channel_of = :channel_of
  AND EXISTS (
    SELECT 1 FROM (
        SELECT r.agent_id FROM runs AS r
        WHERE r.workspace_id = :workspace_id AND r.conversation_id = c.conversation_id
        ORDER BY r.created_at DESC, r.run_id DESC LIMIT :runs) AS newest
    WHERE newest.agent_id = :agent_id)
ORDER BY c.conversation_id LIMIT :limit

-- name: drop
DELETE FROM chats WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id

-- name: conversations_of
SELECT conversation_id FROM chats WHERE workspace_id = :workspace_id AND person_id = :person_id ORDER BY conversation_id
