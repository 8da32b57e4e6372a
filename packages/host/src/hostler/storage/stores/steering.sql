-- Messages that running runs absorb.

-- name: absorb
-- Adds a message to the run that holds the lane, or is about to, if it may still take one. The run's end writes the
-- same row: either the run has ended, and this finds no row, or its end finds the message.
UPDATE runs SET steers = steers + 1, steered = steered + 1
WHERE workspace_id = :workspace_id AND run_id = :run_id AND parallel = 0
  AND (status IN ('claimed', 'running') OR (status = 'queued' AND (follows IS NOT NULL OR attempt > 1)))
  AND cancel_reason IS NULL AND steers < :most
RETURNING steered, runner_id

-- name: inherit
-- Gives the unread messages of an ended run to the one that follows it.
UPDATE runs SET steers = :count, steered = :count WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: count
-- Changes the number of unread messages of a run.
UPDATE runs SET steers = steers + :change WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: insert
INSERT INTO steering (workspace_id, run_id, position, event_id, status, claimed_at)
VALUES (:workspace_id, :run_id, :position, :event_id, 'queued', :claimed_at)

-- name: queued
-- Unread messages of a run, in order.
SELECT * FROM steering
WHERE workspace_id = :workspace_id AND run_id = :run_id AND status = 'queued' ORDER BY position LIMIT :limit

-- name: page
-- All messages that a run absorbed, in order.
SELECT * FROM steering
WHERE workspace_id = :workspace_id AND run_id = :run_id AND position > :after ORDER BY position LIMIT :limit

-- name: injected
UPDATE steering SET status = 'injected', settled_at = :now, attempt = :attempt, step = :step, sequence = :sequence
WHERE workspace_id = :workspace_id AND run_id = :run_id AND position = :position AND status = 'queued'

-- name: requeued
UPDATE steering SET status = 'requeued', settled_at = :now, next_run_id = :next_run_id
WHERE workspace_id = :workspace_id AND run_id = :run_id AND position = :position AND status = 'queued'

-- name: dropped
UPDATE steering SET status = 'dropped', settled_at = :now
WHERE workspace_id = :workspace_id AND run_id = :run_id AND position = :position AND status = 'queued'

-- name: pulled
-- Messages that the attempts of a run pulled, in order.
SELECT * FROM steering
WHERE workspace_id = :workspace_id AND run_id = :run_id AND status = 'injected' ORDER BY position

-- name: given_back
UPDATE steering SET status = 'queued', settled_at = NULL, attempt = NULL, step = NULL, sequence = NULL
WHERE workspace_id = :workspace_id AND run_id = :run_id AND status = 'injected'
