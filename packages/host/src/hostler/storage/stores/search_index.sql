-- The text index of the transcript.

-- name: insert (sqlite)
INSERT INTO transcript_search (rowid, tokens) VALUES (:doc, :tokens)

-- name: insert (postgres)
INSERT INTO transcript_search (workspace_id, seq, tokens)
VALUES (:ws, :seq, array_to_tsvector(string_to_array(CAST(:tokens AS text), ' ')))

-- name: insert_again (sqlite)
-- Under the document number that the message has; nothing, if it was not indexed yet.
INSERT INTO transcript_search (rowid, tokens)
SELECT doc, :tokens FROM transcript_docs WHERE workspace_id = :ws AND seq = :seq

-- name: insert_doc (sqlite)
INSERT INTO transcript_docs (doc, workspace_id, seq) VALUES (:doc, :ws, :seq)

-- name: last_doc (sqlite)
SELECT doc FROM transcript_docs ORDER BY doc DESC LIMIT 1

-- name: last_indexed (sqlite)
-- The last indexed message of a workspace.
SELECT seq FROM transcript_docs WHERE workspace_id = :ws ORDER BY seq DESC LIMIT 1

-- name: waiting (sqlite)
-- Messages that are not indexed yet.
SELECT seq, bot_id, conversation_id, thread_id, search_text, substr(search_text, 1, 1) AS head FROM transcripts
WHERE workspace_id = :ws AND seq > :after AND seq < :before
ORDER BY seq LIMIT :limit

-- name: delete (sqlite)
INSERT INTO transcript_search (transcript_search, rowid, tokens)
SELECT 'delete', doc, :tokens FROM transcript_docs WHERE workspace_id = :ws AND seq = :seq

-- name: delete (postgres)
DELETE FROM transcript_search WHERE workspace_id = :ws AND seq = :seq

-- name: delete_doc (sqlite)
DELETE FROM transcript_docs WHERE workspace_id = :ws AND seq = :seq

-- name: merge (sqlite)
-- One bounded step of rewriting the index: only this removes deleted texts from the file.
INSERT INTO transcript_search (transcript_search, rank) VALUES ('merge', :pages)

-- name: changes (sqlite)
-- Rows changed on this connection so far: a merge step without work changes at most one.
SELECT total_changes() AS changes
