-- Notices of pauses for people and programs. Times are UTC epoch milliseconds.

-- The inbox: one row per notice, written in the transaction of its change.
-- body: JSON of ids and states, never of arguments, titles or results.
CREATE TABLE notices (
    workspace_id    [key] NOT NULL,
    notice_id       [key] NOT NULL,
    event           text NOT NULL,   -- pause.opened | pause.extended | ... (domain/webhooks.py)
    pause_id        [key] NOT NULL,
    run_id          [key] NOT NULL,
    conversation_id [key],
    body            text NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, notice_id)
);
CREATE INDEX notices_by_created ON notices (workspace_id, created_at, notice_id);

-- One row per notice and webhook that wants it. status: pending | delivered | dead.
-- lease_token belongs to the current try until lease_until; its result is accepted only with this token.
CREATE TABLE deliveries (
    workspace_id    [key] NOT NULL,
    delivery_id     [key] NOT NULL,
    notice_id       [key] NOT NULL,
    webhook         [key] NOT NULL,
    event           text NOT NULL,
    status          text NOT NULL,
    attempts        bigint NOT NULL,
    next_at         bigint NOT NULL,
    lease_token     [key],
    lease_until     bigint NOT NULL,
    http_status     bigint,          -- of the last try
    error           text,            -- of the last try
    created_at      bigint NOT NULL,
    settled_at      bigint,
    PRIMARY KEY (workspace_id, delivery_id)
);
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE status = 'pending';
CREATE INDEX deliveries_by_created ON deliveries (workspace_id, created_at, delivery_id);
