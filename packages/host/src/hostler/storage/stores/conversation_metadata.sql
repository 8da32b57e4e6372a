-- Metadata of conversations: values of state that no agent has.

-- name: latest
-- The agent is written out, as in the condition of the index.
SELECT conversation_id, value, updated_at FROM states
WHERE workspace_id = :ws AND agent_id = 'conversations' AND key = 'metadata' AND value <> ''
  AND conversation_id IS NOT NULL AND (CAST(:conversation_id AS text) IS NULL OR conversation_id = :conversation_id)
ORDER BY updated_at DESC, conversation_id LIMIT :limit
