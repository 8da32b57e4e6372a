-- Events whose agent is not known yet because filters could not be evaluated: each is retried at next_at.
CREATE TABLE deferred_events (
    workspace_id [key] NOT NULL,
    event_id     [key] NOT NULL,
    tries        bigint NOT NULL,  -- how often its filters were asked
    next_at      bigint NOT NULL,
    not_before   bigint,           -- when its run may begin
    PRIMARY KEY (workspace_id, event_id)
);
CREATE INDEX deferred_events_due ON deferred_events (next_at);
