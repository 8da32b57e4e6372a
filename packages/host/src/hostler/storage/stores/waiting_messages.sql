-- Messages that are not in the transcript yet.

-- name: insert
-- Does nothing if the message waits already.
INSERT INTO waiting_messages (workspace_id, event_id, bot_id, conversation_id, thread_id, item, size_bytes, created_at)
VALUES (:ws, :event_id, :bot_id, :conversation_id, :thread_id, :item, :size_bytes, :created_at)
ON CONFLICT (workspace_id, event_id) DO NOTHING

-- name: take
DELETE FROM waiting_messages
WHERE workspace_id = :ws AND event_id IN [texts :event_ids]
RETURNING event_id, item

-- name: page
-- In the order in which they were received.
SELECT w.event_id, w.item, w.size_bytes, w.created_at, e.run_id, e.outcome
FROM waiting_messages AS w
JOIN events AS e ON e.workspace_id = w.workspace_id AND e.event_id = w.event_id
WHERE w.workspace_id = :ws AND w.conversation_id = :conversation_id
  AND (:any_thread = 1 OR [is w.thread_id :thread_id])
  AND (:any_bot = 1 OR [is w.bot_id :bot_id])
ORDER BY w.created_at, e.seq LIMIT :limit

-- name: unstarted
-- The latest waiting message of each conversation without transcript items, latest first.
SELECT w.conversation_id, w.thread_id, w.bot_id, w.item, w.created_at
FROM waiting_messages AS w
WHERE w.workspace_id = :ws AND w.conversation_id IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM transcripts AS t WHERE t.workspace_id = :ws AND t.conversation_id = w.conversation_id)
  AND NOT EXISTS (
    SELECT 1 FROM waiting_messages AS later
    WHERE later.workspace_id = :ws AND later.conversation_id = w.conversation_id
      AND (later.created_at, later.event_id) > (w.created_at, w.event_id))
ORDER BY w.created_at DESC, w.event_id DESC LIMIT :limit

-- name: drop_conversation
-- Messages of a deleted conversation up to a time.
DELETE FROM waiting_messages
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND created_at <= :until
