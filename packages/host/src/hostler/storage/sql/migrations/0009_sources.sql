-- Runs that were made from another run: the same event again (retry), or what it recorded, gone on from (fork).
-- base_attempt and until_position say what of the source's journal a fork is answered from; 0: nothing.
-- input: what a fork is given instead of its event's input (JSON); NULL: that.
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
