-- Rows that are old enough to be deleted. The table `sweeps` stores how far each sweep has come.

-- name: swept_until
SELECT swept_until FROM sweeps WHERE workspace_id = :ws AND kind = :kind

-- name: set_swept_until
INSERT INTO sweeps (workspace_id, kind, swept_until) VALUES (:ws, :kind, :until)
ON CONFLICT (workspace_id, kind) DO UPDATE SET swept_until = excluded.swept_until

-- name: events_after
-- is_needed: the event's run is still active.
SELECT e.seq, e.created_at, e.body IS NOT NULL AS has_content,
       EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = e.run_id
               AND r.status NOT IN ('completed', 'failed', 'cancelled', 'timeout')) AS is_needed
FROM events AS e WHERE e.workspace_id = :ws AND e.seq > :after ORDER BY e.seq LIMIT :limit

-- name: oldest_transcripts
SELECT seq, created_at FROM transcripts WHERE workspace_id = :ws ORDER BY seq LIMIT :limit

-- name: finished_runs
SELECT run_id, finished_at FROM runs
WHERE workspace_id = :ws AND finished_at IS NOT NULL AND finished_at < :before
  AND (finished_at > :after OR (finished_at = :after AND run_id > :after_run))
ORDER BY finished_at, run_id LIMIT :limit

-- name: artifacts_after
SELECT artifact_id, created_at FROM artifacts
WHERE workspace_id = :ws AND artifact_id > :after ORDER BY artifact_id LIMIT :limit

-- name: expired_artifacts
SELECT artifact_id FROM artifacts WHERE workspace_id = :ws AND expires_at <= :now LIMIT :limit

-- name: conversations_with_state
SELECT conversation_id, MAX(updated_at) AS updated_at FROM states
WHERE workspace_id = :ws AND conversation_id > :after AND scope = 'conversation'
GROUP BY conversation_id ORDER BY conversation_id LIMIT :limit

-- name: last_message
SELECT created_at FROM transcripts
WHERE workspace_id = :ws AND conversation_id = :conversation_id ORDER BY seq DESC LIMIT 1

-- name: drop_conversation_state
DELETE FROM states WHERE workspace_id = :ws AND conversation_id = :conversation_id AND scope = 'conversation'
RETURNING agent_id, size_bytes

-- name: old_uploads
SELECT upload_id FROM uploads WHERE workspace_id = :ws AND created_at < :before LIMIT :limit

-- name: drop_old_answers
DELETE FROM idempotency WHERE workspace_id = :ws AND created_at < :before
