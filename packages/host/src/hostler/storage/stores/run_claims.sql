-- Claims of queued runs.

-- name: waiting_workspaces
-- Workspaces with queued runs, by a walk over the index whose cost grows with the workspaces, not with the runs.
WITH RECURSIVE waiting (workspace_id) AS (
    SELECT min(workspace_id) FROM runs WHERE status = 'queued'
    UNION ALL
    SELECT (SELECT min(r.workspace_id) FROM runs r
            WHERE r.status = 'queued' AND r.workspace_id > waiting.workspace_id)
    FROM waiting WHERE waiting.workspace_id IS NOT NULL
)
SELECT waiting.workspace_id, coalesce(heads.seq, 0) AS served
FROM waiting LEFT JOIN heads ON heads.workspace_id = waiting.workspace_id AND heads.chain = 'claims'
WHERE waiting.workspace_id IS NOT NULL
ORDER BY served, waiting.workspace_id LIMIT :limit

-- name: look
-- The state of the queues: whether any run is queued, whether any may start now, and when the next one becomes due
-- after :since.
SELECT
    EXISTS (SELECT 1 FROM runs WHERE status = 'queued') AS waiting,
    EXISTS (
        SELECT 1 FROM runs q
        WHERE q.status = 'queued' AND (q.not_before IS NULL OR q.not_before <= :now)
          AND (q.parallel = 1 OR (
              NOT EXISTS (SELECT 1 FROM runs a WHERE a.active_lane = q.lane)
              AND NOT EXISTS (
                  SELECT 1 FROM runs o WHERE o.status = 'queued' AND o.lane = q.lane AND o.parallel = 0
                    AND o.ordinal < q.ordinal
                    AND (o.not_before IS NULL OR o.not_before <= :now OR o.attempt > 1))))
    ) AS ready,
    (SELECT min(not_before) FROM runs WHERE status = 'queued' AND not_before > :since) AS due

-- name: ready
-- Queued runs of a workspace that may start: due, in a free lane, and the oldest in it. On PostgreSQL without rows that
-- another host is claiming at this moment.
SELECT q.* FROM runs q
WHERE q.status = 'queued' AND q.workspace_id = :workspace_id
  AND (q.not_before IS NULL OR q.not_before <= :now)
  AND (q.parallel = 1 OR (
      NOT EXISTS (SELECT 1 FROM runs a WHERE a.active_lane = q.lane)
      AND NOT EXISTS (
          SELECT 1 FROM runs o WHERE o.status = 'queued' AND o.lane = q.lane AND o.parallel = 0
            AND o.ordinal < q.ordinal
            AND (o.not_before IS NULL OR o.not_before <= :now OR o.attempt > 1))))
  AND q.agent_id NOT IN [texts :skip_agents]
  AND q.agent_id || '/' || CAST(q.agent_version AS text) NOT IN [texts :skip_versions]
  AND NOT EXISTS (
      SELECT 1 FROM [texts :skip_plugins] AS p WHERE substr(q.runner_id, 1, length(p.value)) = p.value)
ORDER BY q.priority DESC, q.ordinal LIMIT :limit
[postgres FOR UPDATE OF q SKIP LOCKED]

-- name: served
-- Records that the workspace had its turn.
INSERT INTO heads (workspace_id, chain, seq, digest) VALUES (:workspace_id, 'claims', :turn, '')
ON CONFLICT (workspace_id, chain) DO UPDATE
SET seq = CASE WHEN excluded.seq > heads.seq THEN excluded.seq ELSE heads.seq + 1 END

-- name: claim
UPDATE runs SET status = 'claimed', host_id = :host_id, host_epoch = :host_epoch, position = position + 1,
    active_lane = CASE WHEN parallel = 0 THEN lane END
WHERE run_id = :run_id AND status = 'queued'
RETURNING *
