-- Schedules, and their latest firings.

-- name: insert
INSERT INTO schedules (workspace_id, name, schedule_id, spec, version, made_by, created_at, changed_at, anchor,
                       next_planned, next_at, firings, agent_id, run_id, conversation_id, content)
VALUES (:workspace_id, :name, :schedule_id, :spec, 1, :made_by, :now, :now, :now, :next_planned, :next_at, 0, :agent_id,
        :run_id, :conversation_id, :content)
ON CONFLICT (workspace_id, name) DO NOTHING

-- name: change
UPDATE schedules SET spec = :spec, version = version + 1, made_by = :made_by, changed_at = :now, anchor = :anchor,
                     next_planned = :next_planned, next_at = :next_at
WHERE workspace_id = :workspace_id AND name = :name

-- name: take_over
UPDATE schedules SET made_by = :made_by, version = version + 1, changed_at = :now
WHERE workspace_id = :workspace_id AND name = :name

-- name: find
SELECT * FROM schedules WHERE workspace_id = :workspace_id AND name = :name

-- name: hold
-- The same, and no other host changes it or fires it until the end of this transaction.
SELECT * FROM schedules WHERE workspace_id = :workspace_id AND name = :name [postgres FOR UPDATE]

-- name: page
SELECT * FROM schedules WHERE workspace_id = :workspace_id AND name > :after ORDER BY name LIMIT :limit

-- name: entries
-- Those of the configuration: runners made the others.
SELECT * FROM schedules WHERE workspace_id = :workspace_id AND run_id IS NULL ORDER BY name LIMIT :limit

-- name: count
SELECT count(*) AS schedules FROM schedules WHERE workspace_id = :workspace_id AND run_id IS NULL

-- name: due
-- Schedules of all workspaces that are due, in the order in which they became so, after the last one of the page before.
SELECT * FROM schedules
WHERE next_at <= :now AND (next_at > :after_at OR (next_at = :after_at AND (workspace_id > :after_workspace
      OR (workspace_id = :after_workspace AND name > :after_name))))
ORDER BY next_at, workspace_id, name LIMIT :limit

-- name: next_due
SELECT min(next_at) AS due FROM schedules WHERE next_at > :after

-- name: advance
-- Of the hosts that read the same schedule, one changes it.
UPDATE schedules SET next_planned = :next_planned, next_at = :next_at, last_planned = :planned, firings = firings + 1,
                     error = :error
WHERE workspace_id = :workspace_id AND schedule_id = :schedule_id AND version = :version AND next_planned = :before
RETURNING firings

-- name: note_error
UPDATE schedules SET error = :error WHERE workspace_id = :workspace_id AND schedule_id = :schedule_id

-- name: number
UPDATE schedules SET firings = firings + 1 WHERE workspace_id = :workspace_id AND schedule_id = :schedule_id
RETURNING firings

-- name: pause
UPDATE schedules SET paused_at = :now, paused_by = :paused_by, version = version + 1, next_planned = NULL,
                     next_at = NULL
WHERE workspace_id = :workspace_id AND name = :name

-- name: resume
UPDATE schedules SET paused_at = NULL, paused_by = NULL, version = version + 1, next_planned = :next_planned,
                     next_at = :next_at, last_planned = :last_planned
WHERE workspace_id = :workspace_id AND name = :name

-- name: delete
DELETE FROM schedules WHERE workspace_id = :workspace_id AND name = :name RETURNING schedule_id

-- name: record
INSERT INTO firings (workspace_id, schedule_id, number, event_id, planned_at, fired_at, outcome, run_id, reason,
                     left_out, late, asked_by)
VALUES (:workspace_id, :schedule_id, :number, :event_id, :planned_at, :now, :outcome, :run_id, :reason, :left_out,
        :late, :asked_by)

-- name: forget
DELETE FROM firings WHERE workspace_id = :workspace_id AND schedule_id = :schedule_id AND number <= :until

-- name: firings
SELECT * FROM firings WHERE workspace_id = :workspace_id AND schedule_id = :schedule_id AND number < :before
ORDER BY number DESC LIMIT :limit

-- name: failing
-- Schedules whose latest firing of which the end is known went wrong: it reached no agent, was missed, or its run failed.
-- Those that fire no more are named for a while.
SELECT s.name, s.run_id AS made_in, f.planned_at, f.outcome, f.reason, f.left_out, f.run_id, r.status, r.status_code
FROM firings f
JOIN schedules s ON s.workspace_id = f.workspace_id AND s.schedule_id = f.schedule_id
LEFT JOIN runs r ON r.workspace_id = f.workspace_id AND r.run_id = f.run_id
WHERE f.workspace_id = :workspace_id AND s.paused_at IS NULL AND f.fired_at >= s.changed_at
  AND (s.next_at IS NOT NULL OR f.fired_at > :since)
  AND (f.outcome IN ('refused', 'left_out', 'unrouted', 'conflict', 'rejected', 'failed')
       OR r.status IN ('failed', 'timeout'))
  AND NOT EXISTS (SELECT 1 FROM firings l
                  LEFT JOIN runs lr ON lr.workspace_id = l.workspace_id AND lr.run_id = l.run_id
                  WHERE l.workspace_id = f.workspace_id AND l.schedule_id = f.schedule_id AND l.number > f.number
                    AND (lr.run_id IS NULL OR lr.finished_at IS NOT NULL))
ORDER BY f.fired_at DESC, s.name LIMIT :limit
