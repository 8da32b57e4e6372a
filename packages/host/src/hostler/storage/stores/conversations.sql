-- Conversations, derived from the transcript: there is no table of them.

-- name: latest
-- Those of the :scan newest messages before :before that are the last of their conversation.
SELECT t.seq, t.conversation_id, t.thread_id, t.bot_id, t.role, t.content, t.created_at
FROM (
    SELECT seq, conversation_id, thread_id, bot_id, role, content, created_at
    FROM transcripts
    WHERE workspace_id = :workspace_id AND seq < :before
    ORDER BY seq DESC LIMIT :scan
) AS t
WHERE t.conversation_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM transcripts AS newer
    WHERE newer.workspace_id = :workspace_id AND newer.conversation_id = t.conversation_id AND newer.seq > t.seq
)
ORDER BY t.seq DESC

-- name: scanned
-- The oldest of the :scan newest sequences before :before, where the next step begins, and their number.
SELECT min(seq) AS oldest, count(*) AS rows
FROM (
    SELECT seq FROM transcripts WHERE workspace_id = :workspace_id AND seq < :before
    ORDER BY seq DESC LIMIT :scan
) AS looked_at

-- name: states
-- State of a conversation, of all agents.
SELECT scope_key, scope, key, value, version, agent_id, updated_at FROM states
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id
  AND value <> '' AND (scope_key, key) > (:after_scope, :after_key)
ORDER BY scope_key, key LIMIT :limit

-- name: hold (postgres)
-- Wait for the end of other transactions that have done this. :lock is the number of a conversation.
SELECT pg_advisory_xact_lock(CAST(:lock AS bigint)) AS held

-- name: known
-- Whether any data of a conversation is stored.
SELECT 1 AS found WHERE
    EXISTS (SELECT 1 FROM transcripts WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
 OR EXISTS (SELECT 1 FROM events WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
 OR EXISTS (SELECT 1 FROM waiting_messages WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
 OR EXISTS (SELECT 1 FROM states WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
 OR EXISTS (SELECT 1 FROM artifacts WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
 OR EXISTS (SELECT 1 FROM runs WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)

-- name: begun
-- Whether anything was said in a conversation, or happened in it.
SELECT 1 AS found WHERE
    EXISTS (SELECT 1 FROM events WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
 OR EXISTS (SELECT 1 FROM transcripts WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id)
