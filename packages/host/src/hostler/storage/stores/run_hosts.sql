-- Active runs of hosts.

-- name: active_of
-- Active runs that a host claimed in one epoch, by id.
SELECT * FROM runs WHERE status IN ('claimed', 'running') AND host_id = :host_id AND host_epoch = :host_epoch
  AND run_id > :after
ORDER BY run_id LIMIT :limit

-- name: attempts_of
-- Their attempts only.
SELECT run_id, attempt FROM runs
WHERE status IN ('claimed', 'running') AND host_id = :host_id AND host_epoch = :host_epoch LIMIT :limit

-- name: active
-- Active runs of all hosts, by id: for recovery of an installation with one host.
SELECT * FROM runs WHERE status IN ('claimed', 'running') AND run_id > :after ORDER BY run_id LIMIT :limit

-- name: cancelled_of
-- Active runs of a host that were cancelled, perhaps through another host.
SELECT * FROM runs WHERE status IN ('claimed', 'running') AND host_id = :host_id AND host_epoch = :host_epoch
  AND cancel_reason IS NOT NULL
LIMIT :limit
