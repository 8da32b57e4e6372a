-- The tree of keys that seal content. A key id is random and unique in the installation; sealed values name their key by
-- it.

-- name: by_ids
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys WHERE key_id IN [texts :key_ids]

-- name: by_name
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys
WHERE workspace_id = :workspace_id AND name = :name AND retired = 0

-- name: held
-- The same, to write with it: another host neither destroys nor replaces a key that is held until the transaction ends.
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys
WHERE workspace_id = :workspace_id AND name = :name AND retired = 0 [postgres FOR SHARE]

-- name: held_alone
-- To destroy it: waits for those that write with it.
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys WHERE key_id = :key_id [postgres FOR UPDATE]

-- name: insert
-- Nothing, if another host was first.
INSERT INTO sealing_keys (key_id, workspace_id, parent_id, name, wrapped, created_at)
VALUES (:key_id, :workspace_id, :parent_id, :name, :wrapped, :now)
ON CONFLICT (workspace_id, name) WHERE retired = 0 DO NOTHING

-- name: destroy
DELETE FROM sealing_keys WHERE key_id = :key_id

-- name: retire
UPDATE sealing_keys SET retired = 1 WHERE key_id = :key_id AND retired = 0

-- name: rewrap
UPDATE sealing_keys SET wrapped = :wrapped, parent_id = :parent_id WHERE key_id = :key_id

-- name: place_of_run
SELECT workspace_id, conversation_id FROM runs WHERE run_id = :id

-- name: place_of_event
SELECT workspace_id, conversation_id FROM events WHERE workspace_id = :workspace_id AND event_id = :id

-- name: place_of_pause
SELECT workspace_id, conversation_id FROM pauses WHERE workspace_id = :workspace_id AND pause_id = :id

-- name: erasure_key
-- Which erasure key wraps new keys of workspaces; held, so that none is wrapped by one that is being replaced.
SELECT value FROM installation WHERE name = 'erasure key' [postgres FOR SHARE]

-- name: erasure_key_alone
-- To replace it: waits for those that wrap with it.
SELECT value FROM installation WHERE name = 'erasure key' [postgres FOR UPDATE]

-- name: claim
-- No row, while another host has the right to erase.
INSERT INTO installation (name, value) VALUES (:name, :until)
ON CONFLICT (name) DO UPDATE SET value = :until WHERE installation.value < :now

-- name: any
-- Whether this installation ever sealed anything.
SELECT 1 AS found FROM sealing_keys LIMIT 1

-- name: retired
-- Keys to be replaced, those of workspaces last.
SELECT key_id, workspace_id, parent_id, name FROM sealing_keys WHERE retired = 1
ORDER BY CASE WHEN parent_id IS NULL THEN 1 ELSE 0 END, key_id LIMIT :limit

-- name: below
-- Keys that a key wraps.
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys
WHERE parent_id = :parent_id AND key_id > :after ORDER BY key_id LIMIT :limit [postgres FOR UPDATE]

-- name: of_workspaces
-- The keys of workspaces.
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys
WHERE parent_id IS NULL AND key_id > :after ORDER BY key_id LIMIT :limit

-- name: of_workspaces_alone
-- The same, to wrap them anew: of two hosts that do, the later one sees what the earlier one wrote.
SELECT key_id, workspace_id, parent_id, name, wrapped FROM sealing_keys
WHERE parent_id IS NULL AND key_id > :after ORDER BY key_id LIMIT :limit [postgres FOR UPDATE]

-- name: groups
-- The keys that wrap data keys, of one workspace.
SELECT key_id, name FROM sealing_keys
WHERE workspace_id = :workspace_id AND key_id > :after AND parent_id IN (
    SELECT key_id FROM sealing_keys WHERE parent_id IS NULL AND workspace_id = :workspace_id)
ORDER BY key_id LIMIT :limit

-- name: to_rotate
-- Keys of workspaces that new values are under, of one workspace or (:workspace_id NULL) of all.
SELECT key_id, workspace_id FROM sealing_keys
WHERE parent_id IS NULL AND retired = 0
  AND (CAST(:workspace_id AS text) IS NULL OR workspace_id = CAST(:workspace_id AS text))
ORDER BY key_id

-- name: groups_below
-- The keys that a workspace's key wraps and that new keys are under.
SELECT key_id FROM sealing_keys WHERE parent_id = :parent_id AND key_id > :after AND retired = 0
ORDER BY key_id LIMIT :limit

-- name: named_groups
-- Those of one conversation, or (:name is like 'run#') of one kind of data without conversation.
SELECT key_id FROM sealing_keys WHERE workspace_id = :workspace_id AND name >= :name AND name < :name_end

-- name: leaves
-- The data keys that a key wraps.
SELECT key_id, name FROM sealing_keys
WHERE parent_id = :parent_id AND key_id > :after ORDER BY key_id LIMIT :limit

-- name: workspaces
SELECT DISTINCT workspace_id FROM sealing_keys WHERE parent_id IS NULL

-- name: indexed
-- Whether a conversation has a message, which is in the text index.
SELECT 1 AS found FROM transcripts WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id LIMIT 1

-- name: has_base
-- Whether there is a knowledge base, whose words are in the text index.
SELECT 1 AS found FROM knowledge_bases WHERE workspace_id = :workspace_id AND base_id = :base_id

-- name: stored
SELECT 1 AS found FROM blobs WHERE sha256 = :name
