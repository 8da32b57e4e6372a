-- Messages that a running agent absorbs, and messages that are gathered into one turn.

-- One row per message and run that absorbed it; position is the order within the run. Which status follows which:
-- domain/steering.py. event_id names the message, whose content stands in the event log alone.
CREATE TABLE steering (
    workspace_id [key] NOT NULL,
    run_id       [key] NOT NULL,
    position     bigint NOT NULL,
    event_id     [key] NOT NULL,
    status       text NOT NULL,      -- queued | injected | requeued | dropped
    claimed_at   bigint NOT NULL,
    settled_at   bigint,
    attempt      bigint,             -- injected: the attempt that pulled it
    step         bigint,             -- injected: position of its entry in the run's journal
    sequence     bigint,             -- injected: the last result before it
    next_run_id  [key],              -- requeued: the run that has it now
    PRIMARY KEY (run_id, position)
);
CREATE INDEX steering_by_event ON steering (workspace_id, event_id);

-- Messages of one turn, in order; a run with a single one has none here.
CREATE TABLE gathered (
    workspace_id [key] NOT NULL,
    run_id       [key] NOT NULL,
    position     bigint NOT NULL,
    event_id     [key] NOT NULL,
    PRIMARY KEY (run_id, position)
);

-- steers: messages absorbed and not pulled; steered: absorbed in all. follows: the run that ended with such messages,
-- which this one goes on with.
ALTER TABLE runs ADD COLUMN steers bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN steered bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN follows [key];
-- Set while the run waits for further messages of one person: whose they are, until when at most, how much there is.
ALTER TABLE runs ADD COLUMN gathering [key];
ALTER TABLE runs ADD COLUMN gather_until bigint;
ALTER TABLE runs ADD COLUMN gathered bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN gathered_bytes bigint NOT NULL DEFAULT 0;
-- What a cancelled runner is given to end by itself, in milliseconds; NULL: what the host gives.
ALTER TABLE runs ADD COLUMN cancel_grace bigint;
