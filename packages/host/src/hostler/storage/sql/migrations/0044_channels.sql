-- Connections of channels: which host holds each, how it stands, and what its plugin keeps. Times are UTC epoch
-- milliseconds. lease_token belongs to the host that holds the connection until lease_until. state: JSON of the plugin,
-- like a poll offset. restarts: how often an operator asked for a new connection.
CREATE TABLE channel_connections (
    workspace_id  [key] NOT NULL,
    channel       [key] NOT NULL,
    host_id       [key] NOT NULL,
    lease_token   [key] NOT NULL,
    lease_until   bigint NOT NULL,
    health        text NOT NULL,     -- connecting | connected | failed
    reason        text NOT NULL,
    account_id    text,
    account_name  text,
    state         text,
    opened_at     bigint,
    last_event_at bigint,
    received      bigint NOT NULL,   -- events that were let in
    ignored       bigint NOT NULL,   -- events that the entry leaves out
    restarts      bigint NOT NULL,
    PRIMARY KEY (workspace_id, channel)
);

-- Messages to be sent through channels: one row per message, in order per chat. due_at: when the host works on it next;
-- NULL once it does no more. chat: the digest of channel, chat and thread. send_key: the same in every attempt, for
-- platforms that take a message of one key once. maybe_twice: it was sent again although it may have been sent before.
CREATE TABLE outbox (
    workspace_id    [key] NOT NULL,
    delivery_id     [key] NOT NULL,
    channel         [key] NOT NULL,
    chat            [key] NOT NULL,
    position        bigint NOT NULL,
    kind            text NOT NULL,   -- message
    body            text NOT NULL,   -- JSON: target and message
    send_key        [key] NOT NULL,
    status          text NOT NULL,   -- pending | sending | sent | in_doubt | failed
    attempts        bigint NOT NULL,
    due_at          bigint,
    host_id         [key],
    lease_token     [key],
    lease_until     bigint NOT NULL,
    error           text,
    message_id      text,            -- on the platform
    maybe_twice     bigint NOT NULL,
    conversation_id [key],
    event_id        [key],
    run_id          [key],
    result_sequence bigint,
    created_at      bigint NOT NULL,
    first_sent_at   bigint,
    settled_at      bigint,
    PRIMARY KEY (workspace_id, delivery_id)
);
CREATE INDEX outbox_waiting ON outbox (workspace_id, channel, chat, position, delivery_id) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_due ON outbox (workspace_id, channel, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_by_chat ON outbox (workspace_id, channel, chat, position);
CREATE INDEX outbox_by_status ON outbox (workspace_id, status, created_at, delivery_id);
CREATE INDEX outbox_by_created ON outbox (workspace_id, created_at, delivery_id);
CREATE INDEX outbox_by_run ON outbox (workspace_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX outbox_by_conversation ON outbox (workspace_id, conversation_id) WHERE conversation_id IS NOT NULL;
