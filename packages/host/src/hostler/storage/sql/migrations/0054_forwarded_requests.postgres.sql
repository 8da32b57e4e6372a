-- Requests of platforms that reached another host than the one that has the channel, until they are answered. Times are
-- UTC epoch milliseconds. taken_at NULL: the host that has the channel has not taken it. UNLOGGED: of a request nothing
-- is kept, in the write-ahead log and its archives neither, and after a crash of the server its platform sends it again.
CREATE UNLOGGED TABLE forwarded_requests (
    workspace_id [key] NOT NULL,
    request_id   [key] NOT NULL,
    channel      [key] NOT NULL,
    to_host      [key] NOT NULL,
    request      text NOT NULL,      -- JSON: ChannelRequestParams
    answer       text,               -- JSON: ForwardedAnswer
    taken_at     bigint,
    expires_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, request_id)
);
CREATE INDEX forwarded_requests_by_host ON forwarded_requests (workspace_id, to_host, expires_at);
