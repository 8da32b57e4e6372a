-- The transcript.

-- name: advance
-- Reserves the next :items sequences and returns the last. Runs at the end of a transaction: it locks the head row.
INSERT INTO heads (workspace_id, chain, seq, digest) VALUES (:ws, 'transcript', :items, '')
ON CONFLICT (workspace_id, chain) DO UPDATE SET seq = heads.seq + :items
RETURNING seq

-- name: last_seq
SELECT seq FROM heads WHERE workspace_id = :ws AND chain = 'transcript'

-- name: insert
INSERT INTO transcripts (workspace_id, seq, transcript_id, event_id, run_id, bot_id, conversation_id, thread_id, role,
                         item_type, message_id, content, content_json, search_text, artifact_refs, metadata,
                         size_bytes, created_at)
VALUES (:ws, :seq, :transcript_id, :event_id, :run_id, :bot_id, :conversation_id, :thread_id, :role,
        :item_type, :message_id, :content, :content_json, :search_text, :artifact_refs, :metadata,
        :size_bytes, :created_at)

-- name: keys_thread_backward
-- Items of one bot and thread, which runs read. Sequences and sizes first, so that a page is cut before it is read.
SELECT seq, size_bytes FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id
  AND COALESCE(thread_id, '') = COALESCE(CAST(:thread_id AS text), '')
  AND COALESCE(bot_id, '') = COALESCE(CAST(:bot_id AS text), '')
  AND seq > :after_seq AND seq < :before_seq
  AND (thread_id IS NULL) = (CAST(:thread_id AS text) IS NULL) AND (bot_id IS NULL) = (CAST(:bot_id AS text) IS NULL)
ORDER BY seq DESC LIMIT :limit

-- name: keys_thread_forward
SELECT seq, size_bytes FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id
  AND COALESCE(thread_id, '') = COALESCE(CAST(:thread_id AS text), '')
  AND COALESCE(bot_id, '') = COALESCE(CAST(:bot_id AS text), '')
  AND seq > :after_seq AND seq < :before_seq
  AND (thread_id IS NULL) = (CAST(:thread_id AS text) IS NULL) AND (bot_id IS NULL) = (CAST(:bot_id AS text) IS NULL)
ORDER BY seq LIMIT :limit

-- name: keys_conversation_backward
SELECT seq, size_bytes FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq > :after_seq AND seq < :before_seq
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (:any_bot = 1 OR [is bot_id :bot_id])
ORDER BY seq DESC LIMIT :limit

-- name: keys_conversation_forward
SELECT seq, size_bytes FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq > :after_seq AND seq < :before_seq
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (:any_bot = 1 OR [is bot_id :bot_id])
ORDER BY seq LIMIT :limit

-- name: keys_workspace_backward
SELECT seq, size_bytes FROM transcripts
WHERE workspace_id = :ws AND seq > :after_seq AND seq < :before_seq
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (:any_bot = 1 OR [is bot_id :bot_id])
ORDER BY seq DESC LIMIT :limit

-- name: keys_workspace_forward
SELECT seq, size_bytes FROM transcripts
WHERE workspace_id = :ws AND seq > :after_seq AND seq < :before_seq
  AND (:any_thread = 1 OR [is thread_id :thread_id])
  AND (:any_bot = 1 OR [is bot_id :bot_id])
ORDER BY seq LIMIT :limit

-- name: items
SELECT seq, transcript_id, event_id, run_id, bot_id, conversation_id, thread_id, role, item_type, message_id, content,
       content_json, artifact_refs, metadata, created_at
FROM transcripts
WHERE workspace_id = :ws AND seq IN [numbers :seqs]

-- name: search_columns
-- The columns that are needed to remove an item from the index.
SELECT seq, bot_id, conversation_id, thread_id, search_text, substr(search_text, 1, 1) AS head FROM transcripts
WHERE workspace_id = :ws AND seq = :seq

-- name: delete
DELETE FROM transcripts WHERE workspace_id = :ws AND seq = :seq

-- name: of_event
-- The message of an event, which is the last of its items: its history stands before it. The plus keeps SQLite from walking the whole transcript in the order of seq.
SELECT seq FROM transcripts WHERE workspace_id = :ws AND event_id = :event_id ORDER BY +seq DESC LIMIT 1

-- name: whole_of_event
SELECT seq, transcript_id, role, content, content_json, search_text, artifact_refs, metadata, event_id, run_id, bot_id,
       conversation_id, thread_id, message_id, created_at
FROM transcripts WHERE workspace_id = :ws AND event_id = :event_id ORDER BY +seq DESC LIMIT 1

-- name: of_run
-- Messages of a run, in order.
SELECT message_id, content_json FROM transcripts WHERE workspace_id = :ws AND run_id = :run_id
ORDER BY seq LIMIT :limit

-- name: said_before
-- How many messages of the assistant a run has before one of its own.
SELECT COUNT(*) AS messages FROM transcripts
WHERE workspace_id = :ws AND run_id = :run_id AND role = 'assistant' AND seq < :seq
