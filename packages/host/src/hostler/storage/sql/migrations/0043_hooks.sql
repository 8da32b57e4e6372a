-- Requests that hooks took: digests alone, so that a message starts nothing twice and a request that was listened to
-- is not taken under another id. Times are UTC epoch milliseconds.

-- One row per message. body_digest: of its body as it arrived first. conflicts: other bodies under the same id.
CREATE TABLE hook_deliveries (
    workspace_id    [key] NOT NULL,
    event_id        [key] NOT NULL,
    hook            [key] NOT NULL,
    body_digest     text NOT NULL,
    deliveries      bigint NOT NULL,
    conflicts       bigint NOT NULL,
    created_at      bigint NOT NULL,
    last_at         bigint NOT NULL,
    PRIMARY KEY (workspace_id, event_id)
);
CREATE INDEX hook_deliveries_by_last ON hook_deliveries (workspace_id, last_at);

-- What senders signed, and the message that it was. A message that is sent again may be signed anew.
CREATE TABLE hook_signatures (
    workspace_id    [key] NOT NULL,
    hook            [key] NOT NULL,
    signed_digest   [key] NOT NULL,
    event_id        [key] NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, hook, signed_digest)
);
CREATE INDEX hook_signatures_by_created ON hook_signatures (workspace_id, created_at);
