-- Messages that a running agent absorbs, and messages that are debounced into one turn.

-- One row per message and run that absorbed it; position is the order within the run. Transitions of status are in
-- domain/steering.py. event_id is the message, whose content is only in the event log.
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

-- Messages of one turn, in order; a run with a single message has no rows here.
CREATE TABLE gathered (
    workspace_id [key] NOT NULL,
    run_id       [key] NOT NULL,
    position     bigint NOT NULL,
    event_id     [key] NOT NULL,
    PRIMARY KEY (run_id, position)
);

-- steers: messages absorbed but not pulled; steered: all absorbed messages. follows: the ended run whose unread messages
-- this one takes over.
ALTER TABLE runs ADD COLUMN steers bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN steered bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN follows [key];
-- Debounce: set while the run waits for further messages of one person: author, latest time, number and size so far.
ALTER TABLE runs ADD COLUMN gathering [key];
ALTER TABLE runs ADD COLUMN gather_until bigint;
ALTER TABLE runs ADD COLUMN gathered bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN gathered_bytes bigint NOT NULL DEFAULT 0;
-- Time for a cancelled runner to end by itself, in milliseconds; NULL: the host's default.
ALTER TABLE runs ADD COLUMN cancel_grace bigint;
