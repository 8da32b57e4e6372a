-- Keys that seal content: a tree. A workspace's key is wrapped by the master key and the erasure key, which are outside
-- of the database; it wraps the key of each conversation, and that the keys of its events, runs and journals, which seal
-- values (storage/sealing/columns.py). parent_id: the key that wraps this one; NULL for a workspace's key. name: what new
-- values find the key by; NULL once the key was replaced and only waits until nothing is wrapped by it any more.
-- stale: 1 on a workspace's key if a key below it was destroyed and old copies of the tree still open it.
CREATE TABLE sealing_keys (
    key_id       [key] PRIMARY KEY,
    workspace_id [key] NOT NULL,
    parent_id    [key],
    name         [key] NOT NULL,
    wrapped      [blob] NOT NULL,
    retired      bigint NOT NULL DEFAULT 0,
    created_at   bigint NOT NULL
) [without_rowid];
CREATE UNIQUE INDEX sealing_keys_by_name ON sealing_keys (workspace_id, name) WHERE retired = 0;
CREATE INDEX sealing_keys_by_parent ON sealing_keys (parent_id, key_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sealing_keys_of_workspaces ON sealing_keys (key_id) WHERE parent_id IS NULL;
CREATE INDEX sealing_keys_retired ON sealing_keys (key_id) WHERE retired = 1;

-- Where content is sealed: the ids in an answer, by which a deletion finds the answers that name a run.
ALTER TABLE idempotency ADD COLUMN ids text;

-- The name of a blob whose bytes are sealed, which tells nothing of its content; NULL: it is named by sha256.
ALTER TABLE artifacts ADD COLUMN stored_as [key];
ALTER TABLE upload_parts ADD COLUMN stored_as [key];
