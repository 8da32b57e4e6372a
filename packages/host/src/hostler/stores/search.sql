-- Search over the transcript: what the index proposes. Hits are verified by their text afterwards.

-- name: proposed (sqlite)
-- Newest first: the index is walked backward and stops at the limit.
SELECT t.seq, t.conversation_id, t.thread_id, t.bot_id, t.role, t.created_at, t.search_text
FROM transcript_search AS s
CROSS JOIN transcript_docs AS d ON d.doc = s.rowid
CROSS JOIN transcripts AS t ON t.workspace_id = d.workspace_id AND t.seq = d.seq
WHERE s.transcript_search MATCH :match
  AND s.rowid > COALESCE((SELECT doc FROM transcript_docs WHERE workspace_id = :ws AND seq <= :after_seq
                          ORDER BY seq DESC LIMIT 1), 0)
  AND s.rowid < COALESCE((SELECT doc FROM transcript_docs WHERE workspace_id = :ws AND seq >= :before_seq
                          ORDER BY seq LIMIT 1), 9223372036854775807)
  AND t.workspace_id = :ws
ORDER BY s.rowid DESC LIMIT :limit

-- name: proposed (postgres)
-- The index gives all that match, in no order: right for what is rare. `proposed_recent` comes before it.
WITH matching AS MATERIALIZED (
    SELECT seq FROM transcript_search
    WHERE workspace_id = :ws AND tokens @@ CAST(:match AS tsquery) AND seq > :after_seq AND seq < :before_seq
)
SELECT t.seq, t.conversation_id, t.thread_id, t.bot_id, t.role, t.created_at, t.search_text
FROM matching AS m JOIN transcripts AS t ON t.workspace_id = :ws AND t.seq = m.seq
ORDER BY t.seq DESC LIMIT :limit

-- name: count_proposed (sqlite)
-- How many the index would propose, up to :limit: without reading a single item.
SELECT COUNT(*) AS items FROM (
    SELECT rowid FROM transcript_search AS s
    WHERE s.transcript_search MATCH :match
      AND s.rowid > COALESCE((SELECT doc FROM transcript_docs WHERE workspace_id = :ws AND seq <= :after_seq
                              ORDER BY seq DESC LIMIT 1), 0)
      AND s.rowid < COALESCE((SELECT doc FROM transcript_docs WHERE workspace_id = :ws AND seq >= :before_seq
                              ORDER BY seq LIMIT 1), 9223372036854775807)
    ORDER BY s.rowid DESC LIMIT :limit
) AS counted

-- name: proposed_recent (postgres)
-- The same among the newest items only (after the window's floor): right for what is common, where the index would
-- give more than can be sorted.
SELECT t.seq, t.conversation_id, t.thread_id, t.bot_id, t.role, t.created_at, t.search_text
FROM transcripts AS t JOIN transcript_search AS s ON s.workspace_id = t.workspace_id AND s.seq = t.seq
WHERE t.workspace_id = :ws AND t.seq > :after_seq AND t.seq < :before_seq
  AND (:any_conversation = 1 OR t.conversation_id = :conversation_id)
  AND s.tokens @@ CAST(:match AS tsquery)
ORDER BY t.seq DESC LIMIT :limit

-- name: floor (postgres)
-- Where the window of the newest :window items of a conversation (or workspace) begins.
SELECT seq FROM transcripts
WHERE workspace_id = :ws AND (:any_conversation = 1 OR conversation_id = :conversation_id)
  AND seq > :after_seq AND seq < :before_seq
ORDER BY seq DESC OFFSET :window LIMIT 1

-- name: time_from
-- The first item from a sequence on: for finding a time by bisection.
SELECT seq, created_at FROM transcripts WHERE workspace_id = :ws AND seq >= :seq ORDER BY seq LIMIT 1
