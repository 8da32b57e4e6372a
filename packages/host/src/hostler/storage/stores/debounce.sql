-- Messages of one person that one run takes as one turn.

-- name: join
-- Adds a message to a run that waits for more of the same person. No row: there is no such run, or it is full.
-- After the clock was set back several may wait again: it joins the last one only.
UPDATE runs SET event_id = :event_id, gathered = gathered + 1, gathered_bytes = gathered_bytes + :size,
    not_before = CASE WHEN gathered + 1 >= :most THEN cast(:now AS bigint)
                      WHEN cast(:not_before AS bigint) > gather_until THEN gather_until
                      ELSE cast(:not_before AS bigint) END
WHERE workspace_id = :workspace_id AND run_id = (
    SELECT run_id FROM runs
    WHERE workspace_id = :workspace_id AND lane = :lane AND status = 'queued' AND attempt = 1
      AND gathering = :gathering AND not_before > :now AND cancel_reason IS NULL
    ORDER BY ordinal DESC LIMIT 1)
  AND gathered < :most AND gathered_bytes + :size <= :most_bytes
RETURNING run_id, gathered, not_before, ordinal

-- name: release
-- Makes the runs before :ordinal due that wait for more messages.
UPDATE runs SET not_before = :now
WHERE workspace_id = :workspace_id AND lane = :lane AND status = 'queued' AND attempt = 1
  AND gathering = :gathering AND not_before > :now AND ordinal < :ordinal

-- name: insert
INSERT INTO gathered (workspace_id, run_id, position, event_id)
VALUES (:workspace_id, :run_id, :position, :event_id)

-- name: of_run
SELECT e.* FROM gathered g
JOIN events e ON e.workspace_id = g.workspace_id AND e.event_id = g.event_id
WHERE g.workspace_id = :workspace_id AND g.run_id = :run_id ORDER BY g.position
