-- Candidates of a search of the transcript. Their text is compared afterwards.

-- name: matching (sqlite)
-- Document numbers of candidates, newest first: a backward walk that stops at the limit and reads no item.
SELECT s.rowid AS doc FROM transcript_search AS s
WHERE s.transcript_search MATCH :match
  AND s.rowid > COALESCE((SELECT doc FROM transcript_docs WHERE workspace_id = :ws AND seq <= :after_seq
                          ORDER BY seq DESC LIMIT 1), 0)
  AND s.rowid < min(:before_doc, COALESCE((SELECT doc FROM transcript_docs
                                           WHERE workspace_id = :ws AND seq >= :before_seq
                                           ORDER BY seq LIMIT 1), 9223372036854775807))
ORDER BY s.rowid DESC LIMIT :limit

-- name: proposed (sqlite)
SELECT t.seq, t.conversation_id, t.thread_id, t.bot_id, t.role, t.created_at, t.search_text
FROM json_each(:docs) AS j
CROSS JOIN transcript_docs AS d ON d.doc = j.value
CROSS JOIN transcripts AS t ON t.workspace_id = d.workspace_id AND t.seq = d.seq
WHERE t.workspace_id = :ws
ORDER BY d.doc DESC

-- name: waiting (sqlite)
-- Items that are not indexed yet, newest first, of one conversation or (NULL) of all.
SELECT seq, conversation_id, thread_id, bot_id, role, created_at, search_text FROM transcripts
WHERE workspace_id = :ws
  AND seq > COALESCE((SELECT seq FROM transcript_docs WHERE workspace_id = :ws ORDER BY seq DESC LIMIT 1), 0)
  AND seq > :after_seq AND seq < :before_seq
  AND (:conversation_id IS NULL OR conversation_id = :conversation_id)
ORDER BY seq DESC

-- name: proposed (postgres)
-- The index returns all matches, unordered. That suits rare words; common ones were found among the newest items
-- before. MATERIALIZED keeps the steps apart, so that each uses its index whatever the statistics say.
WITH matching AS MATERIALIZED (
    SELECT workspace_id, seq FROM transcript_search WHERE tokens @@ CAST(:match AS tsquery)
), newest AS MATERIALIZED (
    SELECT seq FROM matching WHERE workspace_id = :ws AND seq > :after_seq AND seq < :before_seq
    ORDER BY seq DESC LIMIT :limit
)
SELECT t.seq, t.conversation_id, t.thread_id, t.bot_id, t.role, t.created_at, t.search_text
FROM newest AS n CROSS JOIN LATERAL (
    SELECT * FROM transcripts WHERE workspace_id = :ws AND seq = n.seq LIMIT 1
) AS t
ORDER BY t.seq DESC

-- name: by_index (postgres)
-- For the rest of this transaction: a search must never scan the whole table.
SET LOCAL enable_seqscan = off

-- name: recent (postgres)
-- Items of a conversation that contain a text, newest first, without the text index.
SELECT seq, conversation_id, thread_id, bot_id, role, created_at, search_text FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq > :after_seq AND seq < :before_seq
  AND strpos(search_text, :term) > 0
ORDER BY seq DESC LIMIT :limit

-- name: recent_anywhere (postgres)
-- The same for a whole workspace.
SELECT seq, conversation_id, thread_id, bot_id, role, created_at, search_text FROM transcripts
WHERE workspace_id = :ws AND seq > :after_seq AND seq < :before_seq AND strpos(search_text, :term) > 0
ORDER BY seq DESC LIMIT :limit

-- name: newest
-- Items of a conversation or (NULL) of all, newest first: where the text is sealed, and no index says what is in it.
SELECT seq, conversation_id, thread_id, bot_id, role, created_at, search_text FROM transcripts
WHERE workspace_id = :ws AND seq > :after_seq AND seq < :before_seq
  AND (CAST(:conversation_id AS text) IS NULL OR conversation_id = :conversation_id)
ORDER BY seq DESC LIMIT :limit

-- name: floor (postgres)
-- The oldest of the newest :window items of a conversation.
SELECT MIN(seq) AS seq FROM (
    SELECT seq FROM transcripts
    WHERE workspace_id = :ws AND conversation_id = :conversation_id AND seq > :after_seq AND seq < :before_seq
    ORDER BY seq DESC LIMIT :window
) AS newest

-- name: floor_anywhere (postgres)
SELECT MIN(seq) AS seq FROM (
    SELECT seq FROM transcripts WHERE workspace_id = :ws AND seq > :after_seq AND seq < :before_seq
    ORDER BY seq DESC LIMIT :window
) AS newest

-- name: time_from
-- The first item from a sequence on, for a bisection by time.
SELECT seq, created_at FROM transcripts WHERE workspace_id = :ws AND seq >= :seq ORDER BY seq LIMIT 1
