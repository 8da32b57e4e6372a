-- Receivers of notifications of one run (A2A's push notification configurations). receiver: JSON of address, token and
-- credentials. shown: the state of the run that it was told last, or that was given up; settled_at: nothing follows.
CREATE TABLE push_receivers (
    workspace_id    [key] NOT NULL,
    run_id          [key] NOT NULL,
    receiver_id     [key] NOT NULL,
    receiver        text NOT NULL,
    shown           text NOT NULL,
    attempts        bigint NOT NULL,
    next_at         bigint NOT NULL,
    lease_token     [key],
    lease_until     bigint NOT NULL,
    error           text,            -- of the last try
    created_at      bigint NOT NULL,
    settled_at      bigint,
    PRIMARY KEY (workspace_id, run_id, receiver_id)
);
CREATE INDEX push_receivers_due ON push_receivers (next_at) WHERE settled_at IS NULL;
CREATE INDEX push_receivers_by_created ON push_receivers (workspace_id, created_at);
