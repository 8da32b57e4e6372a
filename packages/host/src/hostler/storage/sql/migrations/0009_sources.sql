-- Runs that were made from another run: from the same event (retry) or from its recording (fork). base_attempt and
-- until_position limit the part of the source's journal that a fork replays; 0: none.
-- input: JSON that replaces the input of the event; NULL: the event's input.
CREATE TABLE run_sources (
    workspace_id     [key] NOT NULL,
    run_id           [key] NOT NULL,
    source_run_id    [key] NOT NULL,
    kind             text NOT NULL,   -- retry | fork
    step             bigint,          -- of a fork: the last step it shares with its source
    base_attempt     bigint NOT NULL,
    until_position   bigint NOT NULL,
    effects          bigint NOT NULL, -- 1: it may change what is outside of it
    input            text,
    created_at       bigint NOT NULL,
    PRIMARY KEY (run_id)
);
CREATE INDEX run_sources_by_source ON run_sources (workspace_id, source_run_id, kind);
