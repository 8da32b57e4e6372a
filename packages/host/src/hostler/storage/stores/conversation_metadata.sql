-- Metadata of conversations: values of state that no agent has.

-- name: latest
-- The agent is written out, as in the condition of the index.
SELECT conversation_id, value, updated_at FROM states
WHERE workspace_id = :ws AND agent_id = 'conversations' AND key = 'metadata' AND value <> ''
  AND conversation_id IS NOT NULL
ORDER BY updated_at DESC, conversation_id LIMIT :limit

-- name: find
SELECT conversation_id, value, updated_at FROM states
WHERE workspace_id = :ws AND scope_key = :scope_key AND key = 'metadata' AND value <> ''

-- name: of_page
-- The same of several conversations.
SELECT s.conversation_id, s.value, s.updated_at FROM [texts :scope_keys] AS wanted CROSS JOIN states AS s
WHERE s.workspace_id = :ws AND s.scope_key = wanted.value AND s.key = 'metadata' AND s.value <> ''
