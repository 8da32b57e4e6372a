-- Knowledge bases. One with removed_at is gone for everybody, and its documents are being removed.

-- name: insert
INSERT INTO knowledge_bases (workspace_id, base_id, kb_id, spec, passage_chars, made_by, created_at, changed_at)
VALUES (:ws, :base_id, :kb_id, :spec, :passage_chars, :made_by, :now, :now)

-- name: count
SELECT count(*) AS bases FROM knowledge_bases WHERE workspace_id = :ws AND removed_at IS NULL

-- name: find
SELECT * FROM knowledge_bases WHERE workspace_id = :ws AND kb_id = :kb_id AND removed_at IS NULL

-- name: hold
-- The same, and no other host changes or removes it until this transaction ends.
SELECT * FROM knowledge_bases WHERE workspace_id = :ws AND kb_id = :kb_id AND removed_at IS NULL[postgres FOR UPDATE]

-- name: page
SELECT * FROM knowledge_bases WHERE workspace_id = :ws AND kb_id > :after AND removed_at IS NULL
ORDER BY kb_id LIMIT :limit

-- name: every
-- Of all workspaces, in the order of their keys.
SELECT * FROM knowledge_bases WHERE (workspace_id, base_id) > (:after_ws, :after_id) AND removed_at IS NULL
ORDER BY workspace_id, base_id LIMIT :limit

-- name: change
UPDATE knowledge_bases SET spec = :spec, changed_at = :now,
    cut_again = CASE WHEN passage_chars = :passage_chars THEN cut_again ELSE 1 END, passage_chars = :passage_chars
WHERE workspace_id = :ws AND base_id = :base_id

-- name: remove
UPDATE knowledge_bases SET removed_at = :now WHERE workspace_id = :ws AND base_id = :base_id AND removed_at IS NULL

-- name: removed
-- Of any workspace.
SELECT workspace_id, base_id FROM knowledge_bases WHERE removed_at IS NOT NULL ORDER BY removed_at LIMIT 1

-- name: to_cut_again
-- Of any workspace.
SELECT * FROM knowledge_bases WHERE cut_again = 1 AND removed_at IS NULL ORDER BY changed_at LIMIT 1

-- name: is_cut
-- Unless its entry has changed since it was read.
UPDATE knowledge_bases SET cut_again = 0
WHERE workspace_id = :ws AND base_id = :base_id AND passage_chars = :passage_chars

-- name: forget
DELETE FROM knowledge_bases WHERE workspace_id = :ws AND base_id = :base_id AND removed_at IS NOT NULL

-- name: count_passages
UPDATE knowledge_bases SET passages = passages + :passages, chars = chars + :chars
WHERE workspace_id = :ws AND base_id = :base_id

-- name: documents
SELECT count(*) AS documents, CAST(COALESCE(sum(v.size_bytes), 0) AS bigint) AS size_bytes,
       count(CASE WHEN v.state = 'waiting' THEN 1 END) AS waiting,
       count(CASE WHEN v.state = 'indexing' THEN 1 END) AS indexing,
       count(CASE WHEN v.state = 'failed' THEN 1 END) AS failed
FROM knowledge_documents AS d
JOIN knowledge_versions AS v ON v.workspace_id = d.workspace_id AND v.version_id = d.version_id
WHERE d.workspace_id = :ws AND d.base_id = :base_id
