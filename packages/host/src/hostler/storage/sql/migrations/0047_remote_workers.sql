-- Remote workers, each with the host that it is connected to. Times are UTC epoch milliseconds. process: random, the
-- same as long as the process of the worker lives. session: of its connection; what comes of an earlier one changes
-- nothing. host_id NULL: it is not connected.
CREATE TABLE remote_workers (
    workspace_id [key] NOT NULL,
    worker_id    [key] NOT NULL,
    state        text NOT NULL,      -- active | cordoned | draining
    labels       text NOT NULL,      -- JSON: list
    slots        bigint NOT NULL,
    active       bigint NOT NULL,    -- runs that it has now
    process      text NOT NULL,
    session      text NOT NULL,
    host_id      [key],
    version      text NOT NULL,
    machine      text NOT NULL,      -- JSON
    key_id       [key] NOT NULL,
    reason       text NOT NULL,      -- why it is not connected
    joined_at    bigint NOT NULL,
    seen_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, worker_id)
);

-- What workers did, by hour. hour: its beginning.
CREATE TABLE remote_worker_hours (
    workspace_id [key] NOT NULL,
    worker_id    [key] NOT NULL,
    hour         bigint NOT NULL,
    claimed      bigint NOT NULL,
    done         bigint NOT NULL,
    failed       bigint NOT NULL,
    lost         bigint NOT NULL,
    waited_ms    bigint NOT NULL,    -- of runs until their first attempt
    ran_ms       bigint NOT NULL,
    PRIMARY KEY (workspace_id, worker_id, hour)
);
