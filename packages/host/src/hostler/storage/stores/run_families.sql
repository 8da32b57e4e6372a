-- Runs that runs have created.

-- name: children
SELECT * FROM runs WHERE workspace_id = :workspace_id AND parent_run_id = :parent_run_id
  AND status IN ('queued', 'claimed', 'running', 'paused') AND run_id > :after
ORDER BY run_id LIMIT :limit

-- name: family
-- Children of a run, theirs and so on, counted up to :limit. Through finished ones too: their children go on.
WITH RECURSIVE below (run_id, unfinished) AS (
    SELECT run_id, CASE WHEN status IN ('queued', 'claimed', 'running', 'paused') THEN 1 ELSE 0 END
    FROM runs WHERE workspace_id = :workspace_id AND parent_run_id = :run_id
    UNION ALL
    SELECT child.run_id, CASE WHEN child.status IN ('queued', 'claimed', 'running', 'paused') THEN 1 ELSE 0 END
    FROM runs child JOIN below ON child.parent_run_id = below.run_id
    WHERE child.workspace_id = :workspace_id
)
SELECT count(*) AS size, coalesce(sum(unfinished), 0) AS unfinished
FROM (SELECT unfinished FROM below LIMIT :limit) AS some_of_them
