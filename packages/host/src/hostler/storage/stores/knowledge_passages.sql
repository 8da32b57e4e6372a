-- Passages of documents and the text index of them. A search names a base by the tokens, which begin with it.

-- name: insert
INSERT INTO knowledge_passages (workspace_id, base_id, version_id, number, heading, passage, chars)
VALUES (:ws, :base_id, :version_id, :number, :heading, :passage, :chars)

-- name: index (sqlite)
INSERT INTO knowledge_search (rowid, tokens)
SELECT passage_id, :tokens FROM knowledge_passages
WHERE workspace_id = :ws AND version_id = :version_id AND number = :number

-- name: index (postgres)
INSERT INTO knowledge_search (workspace_id, passage_id, tokens)
SELECT workspace_id, passage_id, array_to_tsvector(string_to_array(CAST(:tokens AS text), ' ')) FROM knowledge_passages
WHERE workspace_id = :ws AND version_id = :version_id AND number = :number

-- name: unindex (sqlite)
INSERT INTO knowledge_search (knowledge_search, rowid, tokens)
SELECT 'delete', passage_id, :tokens FROM knowledge_passages
WHERE workspace_id = :ws AND version_id = :version_id AND number = :number

-- name: unindex (postgres)
DELETE FROM knowledge_search WHERE workspace_id = :ws AND passage_id = (
    SELECT passage_id FROM knowledge_passages WHERE workspace_id = :ws AND version_id = :version_id AND number = :number)

-- name: of_version
SELECT base_id, number, heading, passage, substr(passage, 1, 1) AS head FROM knowledge_passages
WHERE workspace_id = :ws AND version_id = :version_id ORDER BY number LIMIT :limit

-- name: delete
DELETE FROM knowledge_passages WHERE workspace_id = :ws AND version_id = :version_id AND number = :number

-- name: merge (sqlite)
-- One bounded step of rewriting the index: only this removes the words of deleted passages from the file.
INSERT INTO knowledge_search (knowledge_search, rank) VALUES ('merge', :pages)

-- name: changes (sqlite)
-- Rows changed on this connection so far: a merge step without work changes at most one.
SELECT total_changes() AS changes

-- name: by_index (postgres)
-- For the rest of this transaction: a search must never scan the whole table.
SET LOCAL enable_seqscan = off

-- name: having (sqlite)
-- How many passages have each token, up to a limit. A token begins with the base that it is of.
SELECT CAST(t.value AS text) AS token, (
    SELECT count(*) FROM (SELECT 1 FROM knowledge_search AS s WHERE s.knowledge_search MATCH '"' || t.value || '"' LIMIT :most)
) AS passages
FROM json_each(:tokens) AS t

-- name: having (postgres)
SELECT CAST(t.value AS text) AS token, (
    SELECT count(*) FROM (
        SELECT 1 FROM knowledge_search AS s
        WHERE s.workspace_id = :ws AND s.tokens @@ CAST('''' || t.value || '''' AS tsquery) LIMIT :most) AS found
) AS passages
FROM jsonb_array_elements_text(CAST(:tokens AS jsonb)) AS t

-- name: matching (sqlite)
-- Passages that the index proposes and whose version is the one to be found, newest first.
SELECT p.passage_id, p.number, p.heading, p.passage, p.chars, v.version_id, v.name, v.mime_type, v.metadata,
       v.passages_total
FROM (SELECT s.rowid AS passage_id FROM knowledge_search AS s WHERE s.knowledge_search MATCH :match
      ORDER BY s.rowid DESC LIMIT :looked_at) AS found
CROSS JOIN knowledge_passages AS p ON p.passage_id = found.passage_id
CROSS JOIN knowledge_versions AS v ON v.workspace_id = p.workspace_id AND v.version_id = p.version_id
CROSS JOIN knowledge_documents AS d
  ON d.workspace_id = v.workspace_id AND d.base_id = v.base_id AND d.name = v.name AND d.live_id = v.version_id
WHERE p.workspace_id = :ws AND p.base_id = :base_id
ORDER BY p.passage_id DESC LIMIT :limit

-- name: matching (postgres)
WITH matching AS MATERIALIZED (
    SELECT passage_id FROM knowledge_search WHERE workspace_id = :ws AND tokens @@ CAST(:match AS tsquery)
), found AS MATERIALIZED (
    SELECT passage_id FROM matching ORDER BY passage_id DESC LIMIT :looked_at
)
SELECT p.passage_id, p.number, p.heading, p.passage, p.chars, v.version_id, v.name, v.mime_type, v.metadata,
       v.passages_total
FROM found
JOIN knowledge_passages AS p ON p.passage_id = found.passage_id
JOIN knowledge_versions AS v ON v.workspace_id = p.workspace_id AND v.version_id = p.version_id
JOIN knowledge_documents AS d
  ON d.workspace_id = v.workspace_id AND d.base_id = v.base_id AND d.name = v.name AND d.live_id = v.version_id
WHERE p.workspace_id = :ws AND p.base_id = :base_id
ORDER BY p.passage_id DESC LIMIT :limit
