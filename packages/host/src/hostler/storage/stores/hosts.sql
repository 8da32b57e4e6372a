-- Hosts on this database, by lease.

-- name: join
-- The epoch is the time for a new host, and above the previous epoch otherwise: it is never used twice.
INSERT INTO hosts (host_id, epoch, address, started_at, lease_until)
VALUES (:host_id, :now, :address, :now, :lease_until)
ON CONFLICT (host_id) DO UPDATE
SET epoch = CASE WHEN excluded.epoch > hosts.epoch THEN excluded.epoch ELSE hosts.epoch + 1 END,
    address = excluded.address, started_at = excluded.started_at, lease_until = excluded.lease_until
RETURNING epoch

-- name: renew
-- An expired lease is not renewed: another host may be settling the runs.
UPDATE hosts SET lease_until = :lease_until
WHERE host_id = :host_id AND epoch = :epoch AND lease_until >= :now

-- name: holds
-- The lock prevents a take-over, which removes the row, until this transaction ends.
SELECT 1 AS held FROM hosts WHERE host_id = :host_id AND epoch = :epoch AND lease_until >= :now
[postgres FOR KEY SHARE]

-- name: remove
DELETE FROM hosts WHERE host_id = :host_id AND epoch = :epoch

-- name: remove_dead
-- A host that was stopped inside a transaction locks its row until the server ends that; the next try removes it.
DELETE FROM hosts WHERE host_id IN (
    SELECT host_id FROM hosts WHERE host_id = :host_id AND epoch = :epoch AND lease_until < :now
    [postgres FOR UPDATE SKIP LOCKED])

-- name: end_stalled (postgres)
-- Sessions of hosts that hold locks while the server waits for their process. idle_in_transaction_session_timeout ends
-- only some of them: its timer is off once a client has sent a Flush after its Sync, or does not read its results.
SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = :application
  AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL AND wait_event_type = 'Client'
  AND state_change < clock_timestamp() - make_interval(secs => :seconds)
LIMIT 100

-- name: dead
SELECT host_id, epoch, address, started_at, lease_until FROM hosts WHERE lease_until < :now
ORDER BY host_id LIMIT :limit

-- name: alive
SELECT host_id, epoch, address, started_at, lease_until FROM hosts WHERE lease_until >= :now
ORDER BY host_id LIMIT :limit

-- name: lost
-- Owners of active runs that are members no more: the host was taken over from, left, or has joined again.
SELECT DISTINCT runs.host_id AS host_id, runs.host_epoch AS epoch FROM runs
WHERE runs.status IN ('claimed', 'running') AND runs.host_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.host_id = runs.host_id AND hosts.epoch = runs.host_epoch)
ORDER BY 1, 2 LIMIT :limit
