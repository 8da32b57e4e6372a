-- Documents of knowledge bases and their versions.

-- part: of
FROM knowledge_documents AS d
JOIN knowledge_versions AS v ON v.workspace_id = d.workspace_id AND v.version_id = d.version_id

-- part: columns
d.name, d.live_id, d.put_by, d.created_at, d.changed_at, v.version_id, v.mime_type, v.size_bytes, v.sha256, v.stored_as,
v.metadata, v.passage_chars, v.state, v.reason, v.passages_done, v.passages_total, v.indexed_at

-- name: find
SELECT [part columns] [part of] WHERE d.workspace_id = :ws AND d.base_id = :base_id AND d.name = :name

-- name: page
SELECT [part columns] [part of]
WHERE d.workspace_id = :ws AND d.base_id = :base_id AND d.name > :after
  AND (CAST(:state AS text) IS NULL OR v.state = :state)
ORDER BY d.name LIMIT :limit

-- name: count
SELECT count(*) AS documents FROM knowledge_documents WHERE workspace_id = :ws AND base_id = :base_id

-- name: hold
SELECT version_id, live_id FROM knowledge_documents
WHERE workspace_id = :ws AND base_id = :base_id AND name = :name[postgres FOR UPDATE]

-- name: insert
INSERT INTO knowledge_documents (workspace_id, base_id, name, version_id, put_by, created_at, changed_at)
VALUES (:ws, :base_id, :name, :version_id, :put_by, :now, :now)

-- name: advance
UPDATE knowledge_documents SET version_id = :version_id, put_by = :put_by, changed_at = :now
WHERE workspace_id = :ws AND base_id = :base_id AND name = :name

-- name: show
UPDATE knowledge_documents SET live_id = :version_id
WHERE workspace_id = :ws AND base_id = :base_id AND name = :name

-- name: delete
DELETE FROM knowledge_documents WHERE workspace_id = :ws AND base_id = :base_id AND name = :name

-- name: next_of_base
SELECT name FROM knowledge_documents WHERE workspace_id = :ws AND base_id = :base_id ORDER BY name LIMIT :limit

-- name: cut_otherwise
-- Documents that were cut into passages of another length than their base wants now.
SELECT d.name [part of]
WHERE d.workspace_id = :ws AND d.base_id = :base_id AND v.passage_chars <> :passage_chars
ORDER BY d.name LIMIT :limit

-- name: add_version
INSERT INTO knowledge_versions (workspace_id, version_id, base_id, name, mime_type, size_bytes, sha256, stored_as, metadata,
                                passage_chars, state, created_at)
VALUES (:ws, :version_id, :base_id, :name, :mime_type, :size_bytes, :sha256, :stored_as, :metadata,
        :passage_chars, 'waiting', :now)

-- name: version
SELECT * FROM knowledge_versions WHERE workspace_id = :ws AND version_id = :version_id

-- name: retire
UPDATE knowledge_versions SET state = 'gone', claimed_by = NULL, claimed_until = 0
WHERE workspace_id = :ws AND version_id = :version_id AND state NOT IN ('gone', 'removed')

-- part: has_work
-- In the words of the index of these versions, so that it is used.
state IN ('waiting', 'indexing') AND (state = 'waiting' OR claimed_until < :now)

-- name: next_work
-- The oldest version that waits, or whose host does not go on with it, of the next workspace.
SELECT * FROM knowledge_versions
WHERE workspace_id > :after_ws AND [part has_work]
ORDER BY workspace_id, created_at LIMIT 1[postgres FOR UPDATE SKIP LOCKED]

-- name: waits
SELECT 1 AS waits FROM knowledge_versions WHERE [part has_work] LIMIT 1

-- name: claim
UPDATE knowledge_versions
SET state = 'indexing', claimed_by = :host_id, claimed_until = :until, attempts = attempts + 1
WHERE workspace_id = :ws AND version_id = :version_id

-- name: release_own
-- Versions that an earlier process of this host was indexing, of any workspace.
UPDATE knowledge_versions SET claimed_until = 0 WHERE claimed_by = :host_id AND state = 'indexing'

-- name: progress
UPDATE knowledge_versions SET passages_done = :done, passages_total = :total, chars = :chars, claimed_until = :until
WHERE workspace_id = :ws AND version_id = :version_id AND state = 'indexing' AND claimed_by = :host_id
  AND attempts = :attempts AND passages_done = :before

-- name: finish
UPDATE knowledge_versions SET state = :state, reason = :reason, indexed_at = :indexed_at, claimed_by = NULL, claimed_until = 0
WHERE workspace_id = :ws AND version_id = :version_id AND state = 'indexing' AND claimed_by = :host_id
  AND attempts = :attempts

-- name: next_gone
-- Of any workspace.
SELECT * FROM knowledge_versions WHERE state = 'gone' ORDER BY workspace_id, version_id LIMIT 1

-- name: mark_removed
UPDATE knowledge_versions SET state = 'removed', sha256 = '', metadata = '{}'
WHERE workspace_id = :ws AND version_id = :version_id AND state = 'gone'

-- name: removed
-- Of any workspace.
SELECT workspace_id, version_id FROM knowledge_versions WHERE state = 'removed'
ORDER BY workspace_id, version_id LIMIT :limit

-- name: forget
DELETE FROM knowledge_versions WHERE workspace_id = :ws AND version_id = :version_id AND state = 'removed'
