-- Sources of runs, and dead letters.

-- name: insert
INSERT INTO run_sources (workspace_id, run_id, source_run_id, kind, step, base_attempt, until_position, effects, input,
    config, created_at)
VALUES (:workspace_id, :run_id, :source_run_id, :kind, :step, :base_attempt, :until_position, :effects, :input,
    :config, :created_at)

-- name: find
SELECT * FROM run_sources WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: made_from
SELECT * FROM run_sources WHERE workspace_id = :workspace_id AND source_run_id = :source_run_id
ORDER BY created_at, run_id LIMIT :limit

-- name: copy_turn
-- Copies the messages of a turn to another run of the same event.
INSERT INTO gathered (workspace_id, run_id, position, event_id)
SELECT workspace_id, cast(:run_id AS text), position, event_id FROM gathered
WHERE workspace_id = :workspace_id AND run_id = :source_run_id

-- name: set_turn
UPDATE runs SET gathered = :gathered WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: dead
-- Runs that the host gave up and that have no retry, newest first.
SELECT r.* FROM runs AS r
WHERE r.workspace_id = :workspace_id AND r.status = 'failed'
  AND r.status_code IN ('runner.crashed', 'host.restarted', 'host.error', 'replay.diverged')
  AND (r.created_at, r.run_id) < (:before_time, :before_id)
  AND r.created_at >= :since
  AND (cast(:agent_name AS text) IS NULL OR r.agent_name = :agent_name)
  AND NOT EXISTS (SELECT 1 FROM run_sources AS s WHERE s.workspace_id = r.workspace_id
      AND s.source_run_id = r.run_id AND s.kind = 'retry')
ORDER BY r.created_at DESC, r.run_id DESC LIMIT :limit
