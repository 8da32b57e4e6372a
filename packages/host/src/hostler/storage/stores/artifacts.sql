-- Metadata of artifacts. The bytes are blobs, or files registered in place.

-- name: insert
INSERT INTO artifacts (workspace_id, artifact_id, artifact_type, mime_type, name, size_bytes, sha256, source,
                       registered_path, event_id, bot_id, conversation_id, thread_id, run_id, agent_id, runner_id,
                       metadata, created_at, expires_at, stored_as)
VALUES (:ws, :artifact_id, :artifact_type, :mime_type, :name, :size_bytes, :sha256, :source,
        :registered_path, :event_id, :bot_id, :conversation_id, :thread_id, :run_id, :agent_id, :runner_id,
        :metadata, :created_at, :expires_at, :stored_as)
ON CONFLICT (workspace_id, artifact_id) DO NOTHING

-- name: find
-- An expired artifact is not found, even if its row was not collected yet.
SELECT * FROM artifacts
WHERE workspace_id = :ws AND artifact_id = :artifact_id AND (expires_at IS NULL OR expires_at > :now)

-- name: held
-- Includes expired artifacts that were not collected yet.
SELECT * FROM artifacts WHERE workspace_id = :ws AND artifact_id = :artifact_id

-- name: uploaded_by
SELECT * FROM artifacts
WHERE workspace_id = :ws AND run_id = :run_id AND source IN ('upload', 'tool', 'tool_shown')
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, artifact_id
LIMIT :limit

-- name: of_conversation
SELECT * FROM artifacts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND (expires_at IS NULL OR expires_at > :now)
  AND (created_at, artifact_id) < (:before_at, :before_id)
ORDER BY created_at DESC, artifact_id DESC
LIMIT :limit

-- name: of_run
SELECT * FROM artifacts
WHERE workspace_id = :ws AND run_id = :run_id AND (expires_at IS NULL OR expires_at > :now)
  AND (created_at, artifact_id) < (:before_at, :before_id)
ORDER BY created_at DESC, artifact_id DESC
LIMIT :limit

-- name: shown_of_conversation
-- What people in the conversation are shown.
SELECT * FROM artifacts
WHERE workspace_id = :ws AND conversation_id = :conversation_id AND (expires_at IS NULL OR expires_at > :now)
  AND source <> 'tool'
  AND (created_at, artifact_id) < (:before_at, :before_id)
ORDER BY created_at DESC, artifact_id DESC
LIMIT :limit

-- name: shown_of_run
SELECT * FROM artifacts
WHERE workspace_id = :ws AND run_id = :run_id AND (expires_at IS NULL OR expires_at > :now)
  AND source <> 'tool'
  AND (created_at, artifact_id) < (:before_at, :before_id)
ORDER BY created_at DESC, artifact_id DESC
LIMIT :limit

-- name: show
-- A file that a tool made for a run, and not a large result of a tool.
UPDATE artifacts SET source = 'tool_shown'
WHERE workspace_id = :ws AND artifact_id = :artifact_id AND run_id = :run_id AND source = 'tool'
  AND artifact_type <> :tool_result

-- name: delete
DELETE FROM artifacts WHERE workspace_id = :ws AND artifact_id = :artifact_id

-- name: attach
-- Says which event brought a file that came before it.
UPDATE artifacts
SET event_id = :event_id, bot_id = :bot_id, conversation_id = :conversation_id, thread_id = :thread_id, expires_at = NULL
WHERE workspace_id = :ws AND artifact_id = :artifact_id AND event_id IS NULL AND run_id IS NULL AND source = 'event'
