-- Lanes of runs, and the queue of all.

-- name: count_waiting
-- Queued runs of a lane that could start if it were free, counted up to :limit.
SELECT count(*) AS waiting FROM (
    SELECT 1 FROM runs WHERE lane = :lane AND status = 'queued'
      AND (not_before IS NULL OR not_before <= :now OR attempt > 1)
    LIMIT :limit
) AS some_of_them

-- name: lane_is_free
-- One row if no run holds the lane and no queued run of it could start.
SELECT 1 AS free WHERE NOT EXISTS (SELECT 1 FROM runs WHERE active_lane = :lane)
  AND NOT EXISTS (SELECT 1 FROM runs WHERE lane = :lane AND status = 'queued'
                  AND (not_before IS NULL OR not_before <= :now OR attempt > 1))

-- name: lane_holder
-- The run that holds a lane, if any.
SELECT * FROM runs WHERE workspace_id = :workspace_id AND active_lane = :lane

-- name: first_waiting
-- The queued run of a lane that starts next.
SELECT * FROM runs
WHERE workspace_id = :workspace_id AND lane = :lane AND status = 'queued' AND parallel = 0
  AND (not_before IS NULL OR not_before <= :now OR attempt > 1)
ORDER BY ordinal LIMIT 1

-- name: count_queued
-- All queued runs, counted up to :limit.
SELECT count(*) AS waiting FROM (SELECT 1 FROM runs WHERE status = 'queued' LIMIT :limit) AS some_of_them
