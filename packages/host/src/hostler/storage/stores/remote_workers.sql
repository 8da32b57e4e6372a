-- Remote workers and what they did.

-- name: find
SELECT * FROM remote_workers WHERE workspace_id = :workspace_id AND worker_id = :worker_id

-- name: page
SELECT * FROM remote_workers WHERE workspace_id = :workspace_id AND worker_id > :after
ORDER BY worker_id LIMIT :limit

-- name: count
SELECT count(*) AS n FROM remote_workers WHERE workspace_id = :workspace_id

-- name: join
-- One that was drained is active again; one that was cordoned stays so.
INSERT INTO remote_workers (workspace_id, worker_id, state, labels, slots, active, process, session, host_id, version,
                            machine, key_id, reason, joined_at, seen_at)
VALUES (:workspace_id, :worker_id, 'active', :labels, :slots, 0, :process, :session, :host_id, :version, :machine,
        :key_id, '', :now, :now)
ON CONFLICT (workspace_id, worker_id) DO UPDATE
SET state = CASE WHEN remote_workers.state = 'cordoned' THEN 'cordoned' ELSE 'active' END, labels = excluded.labels,
    slots = excluded.slots, active = 0, process = excluded.process, session = excluded.session,
    host_id = excluded.host_id, version = excluded.version, machine = excluded.machine, key_id = excluded.key_id,
    reason = '', joined_at = excluded.joined_at, seen_at = excluded.seen_at
RETURNING state

-- name: beat
UPDATE remote_workers
SET seen_at = :now, active = :active, state = CASE WHEN CAST(:drains AS bigint) = 1 THEN 'draining' ELSE state END
WHERE workspace_id = :workspace_id AND worker_id = :worker_id AND session = :session
RETURNING state

-- name: leave
UPDATE remote_workers SET host_id = NULL, active = 0, reason = :reason, seen_at = :now
WHERE workspace_id = :workspace_id AND worker_id = :worker_id AND session = :session

-- name: set_state
UPDATE remote_workers SET state = :state WHERE workspace_id = :workspace_id AND worker_id = :worker_id

-- name: remove
DELETE FROM remote_workers WHERE workspace_id = :workspace_id AND worker_id = :worker_id

-- name: remove_hours
DELETE FROM remote_worker_hours WHERE workspace_id = :workspace_id AND worker_id = :worker_id

-- name: add
INSERT INTO remote_worker_hours (workspace_id, worker_id, hour, claimed, done, failed, lost, waited_ms, ran_ms)
VALUES (:workspace_id, :worker_id, :hour, :claimed, :done, :failed, :lost, :waited_ms, :ran_ms)
ON CONFLICT (workspace_id, worker_id, hour) DO UPDATE
SET claimed = remote_worker_hours.claimed + excluded.claimed, done = remote_worker_hours.done + excluded.done,
    failed = remote_worker_hours.failed + excluded.failed, lost = remote_worker_hours.lost + excluded.lost,
    waited_ms = remote_worker_hours.waited_ms + excluded.waited_ms,
    ran_ms = remote_worker_hours.ran_ms + excluded.ran_ms

-- name: forget_hours
DELETE FROM remote_worker_hours WHERE workspace_id = :workspace_id AND worker_id = :worker_id AND hour < :before

-- name: queued
-- The agents of queued runs.
SELECT run_id, agent_id, agent_version FROM runs
WHERE workspace_id = :workspace_id AND status = 'queued' AND run_id IN [texts :run_ids]

-- name: hours
SELECT * FROM remote_worker_hours WHERE workspace_id = :workspace_id AND worker_id = :worker_id
ORDER BY hour DESC LIMIT :limit
