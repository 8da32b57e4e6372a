-- Hosts on this database, by lease.

-- name: join
-- A row that is still there is the same host's, and nobody has taken its runs over: that begins with removing it.
INSERT INTO hosts (host_id, address, started_at, lease_until) VALUES (:host_id, :address, :now, :lease_until)
ON CONFLICT (host_id) DO UPDATE
SET address = excluded.address, started_at = excluded.started_at, lease_until = excluded.lease_until

-- name: renew
-- A lease that is over stays over: another host may be settling this one's runs.
UPDATE hosts SET lease_until = :lease_until WHERE host_id = :host_id AND lease_until >= :now

-- name: remove
DELETE FROM hosts WHERE host_id = :host_id

-- name: remove_dead
DELETE FROM hosts WHERE host_id = :host_id AND lease_until < :now

-- name: dead
SELECT host_id, address, started_at, lease_until FROM hosts WHERE lease_until < :now ORDER BY host_id LIMIT :limit

-- name: alive
SELECT host_id, address, started_at, lease_until FROM hosts WHERE lease_until >= :now ORDER BY host_id LIMIT :limit

-- name: lost
-- Hosts that hold runs but are not known any more.
SELECT DISTINCT runs.host_id AS host_id FROM runs
WHERE runs.status IN ('claimed', 'running')
  AND NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.host_id = runs.host_id)
ORDER BY 1 LIMIT :limit
