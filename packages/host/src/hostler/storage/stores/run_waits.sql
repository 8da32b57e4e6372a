-- What runs wait for: people, other runs, their turn, a time. The ids come first in each join: the rows of a few runs
-- are found by their indexes, and not among all of the workspace.

-- name: of_people
-- Kinds of what people are asked for these runs and have not decided, each with the earliest end of its time. A pause
-- that somebody has to look at again is of the kind 'review'.
SELECT run_id, kind, min(expires_at) AS until FROM (
    SELECT p.run_id, c.kind, c.expires_at
    FROM [texts :run_ids] AS found CROSS JOIN pauses AS p CROSS JOIN pause_calls AS c
    WHERE p.run_id = found.value AND p.workspace_id = :workspace_id AND p.status = 'open'
      AND c.workspace_id = p.workspace_id AND c.pause_id = p.pause_id AND c.decision = 'undecided'
    UNION ALL
    SELECT p.run_id, 'review', NULL FROM [texts :run_ids] AS found CROSS JOIN pauses AS p
    WHERE p.run_id = found.value AND p.workspace_id = :workspace_id AND p.status = 'needs_review'
) AS asked
GROUP BY run_id, kind ORDER BY run_id, kind

-- name: children
-- Runs that these runs have started and that have not ended. They are of the workspace of the run that started them: that
-- is asked of it alone, or the planner would walk through the workspace.
SELECT r.parent_run_id, r.run_id
FROM [texts :run_ids] AS found CROSS JOIN runs AS p CROSS JOIN runs AS r
WHERE p.run_id = found.value AND p.workspace_id = :workspace_id AND r.parent_run_id = p.run_id
  AND r.status IN ('queued', 'claimed', 'running', 'paused')
ORDER BY r.run_id LIMIT :limit

-- name: queued
-- Of those of these runs that are queued: until when their start is delayed, and who is before them in their lane.
SELECT q.run_id, q.not_before,
    CASE WHEN q.parallel = 1 THEN NULL ELSE coalesce(
        (SELECT a.run_id FROM runs a WHERE a.active_lane = q.lane AND a.workspace_id = q.workspace_id),
        (SELECT o.run_id FROM runs o
         WHERE o.status = 'queued' AND o.lane = q.lane AND o.parallel = 0 AND o.ordinal < q.ordinal
           AND o.workspace_id = q.workspace_id AND (o.not_before IS NULL OR o.not_before <= :now OR o.attempt > 1)
         ORDER BY o.ordinal LIMIT 1)) END AS before_it
FROM [texts :run_ids] AS found CROSS JOIN runs AS q
WHERE q.run_id = found.value AND q.workspace_id = :workspace_id AND q.status = 'queued'
