-- The event log.

-- name: insert
-- seq and digest are set at the end of the transaction (hash_chain.sql).
INSERT INTO events (workspace_id, event_id, body_digest, request_digest, event_type, source, bot_id,
    conversation_id, thread_id, actor_type, actor_id, actor_name, subject_type, subject_id, input_summary, body,
    content_redacted, requester, requester_roles, outcome, run_id, routing, event_time, created_at)
VALUES (:workspace_id, :event_id, :body_digest, :request_digest, :event_type, :source, :bot_id,
    :conversation_id, :thread_id, :actor_type, :actor_id, :actor_name, :subject_type, :subject_id, :input_summary,
    :body, :content_redacted, :requester, :requester_roles, :outcome, :run_id, :routing, :event_time, :created_at)
ON CONFLICT (workspace_id, event_id) DO NOTHING

-- name: set_outcome
UPDATE events SET outcome = :outcome, run_id = :run_id, routing = :routing
WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: take_unsettled
-- Locks the row: another host that tries to route the event waits here, and then finds it settled.
UPDATE events SET outcome = outcome
WHERE workspace_id = :workspace_id AND event_id = :event_id AND outcome IN ('deferred', 'failed')

-- name: set_steering
UPDATE events SET steering = :steering WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: find
SELECT * FROM events WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: latest_beginning
-- The event whose id is last of those that begin with a text, all of them below the text that ends them.
SELECT * FROM events
WHERE workspace_id = :workspace_id AND event_id >= :beginning AND event_id < :beyond
  AND created_at >= :since
ORDER BY event_id DESC LIMIT 1

-- name: latest_seq
SELECT seq FROM heads WHERE workspace_id = :workspace_id AND chain = 'events'

-- name: page
-- Events of a whole workspace, newest first.
SELECT * FROM events
WHERE workspace_id = :workspace_id AND seq < :before_seq
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (cast(:event_types AS text) IS NULL OR event_type IN [texts :event_types])
  AND (cast(:outcome AS text) IS NULL OR outcome = :outcome)
ORDER BY seq DESC LIMIT :limit

-- name: page_requester
-- Events that one has sent, newest first.
SELECT * FROM events
WHERE workspace_id = :workspace_id AND requester = :requester AND seq < :before_seq
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (cast(:event_types AS text) IS NULL OR event_type IN [texts :event_types])
  AND (cast(:outcome AS text) IS NULL OR outcome = :outcome)
ORDER BY seq DESC LIMIT :limit

-- name: page_conversation
-- Events of one conversation, or (NULL) those without one, newest first.
SELECT * FROM events
WHERE workspace_id = :workspace_id AND seq < :before_seq
  AND [is conversation_id :conversation_id]
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (cast(:event_types AS text) IS NULL OR event_type IN [texts :event_types])
  AND (cast(:outcome AS text) IS NULL OR outcome = :outcome)
  AND (cast(:requester AS text) IS NULL OR requester = :requester)
ORDER BY seq DESC LIMIT :limit
