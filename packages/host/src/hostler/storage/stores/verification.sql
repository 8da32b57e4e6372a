-- References to events, besides the head of their chain.

-- name: last_event
SELECT max(seq) AS seq FROM events WHERE workspace_id = :ws

-- name: run_without_event
-- Rows of the event log are never removed, so the event of a run exists.
SELECT r.run_id, r.event_id FROM runs AS r
WHERE r.workspace_id = :ws AND r.event_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.workspace_id = r.workspace_id AND e.event_id = r.event_id)
LIMIT 1

-- name: steer_without_event
SELECT s.run_id, s.event_id FROM steering AS s
WHERE s.workspace_id = :ws
  AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.workspace_id = s.workspace_id AND e.event_id = s.event_id)
LIMIT 1
