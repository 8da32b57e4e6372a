-- Schedules: when each fires next, and what it has sent. Times are UTC epoch milliseconds.

-- One row per schedule. spec: JSON of its entry. schedule_id is new for each one that is made, also under an old name:
-- with the planned time it names the event of a firing. next_planned is the planned time of the next firing, and next_at
-- when that is due (later by its jitter); both are null while it is paused, and once it has ended. anchor: where an
-- interval is counted from. Whoever fires moves next_planned on in the transaction that stores the event.
CREATE TABLE schedules (
    workspace_id    [key] NOT NULL,
    name            [key] NOT NULL,
    schedule_id     [key] NOT NULL,
    spec            text NOT NULL,
    version         bigint NOT NULL, -- of the spec and of whether it is paused
    made_by         text NOT NULL,   -- who made the current spec: events are sent for this subject
    created_at      bigint NOT NULL,
    changed_at      bigint NOT NULL,
    anchor          bigint NOT NULL,
    next_planned    bigint,
    next_at         bigint,
    last_planned    bigint,
    firings         bigint NOT NULL, -- how many were recorded: their numbers
    error           text,            -- why the last firing reached no agent
    paused_at       bigint,
    paused_by       text,
    agent_id        [key],           -- of a reminder: whose runner made it, in which run, for which conversation
    run_id          [key],
    conversation_id [key],
    PRIMARY KEY (workspace_id, name)
);
CREATE INDEX schedules_due ON schedules (next_at, workspace_id, name) WHERE next_at IS NOT NULL;
CREATE UNIQUE INDEX schedules_by_id ON schedules (workspace_id, schedule_id);
CREATE INDEX schedules_of_conversations ON schedules (workspace_id, conversation_id) WHERE conversation_id IS NOT NULL;

-- The latest firings of each schedule. outcome: that of the event, `refused` (no event was stored: reason says why) or
-- `left_out` (missed, and not made up for). left_out: how many missed firings did not happen. late: in milliseconds.
-- asked_by: who asked for it; null for planned ones.
CREATE TABLE firings (
    workspace_id    [key] NOT NULL,
    schedule_id     [key] NOT NULL,
    number          bigint NOT NULL,
    event_id        [key],
    planned_at      bigint NOT NULL,
    fired_at        bigint NOT NULL,
    outcome         text NOT NULL,
    run_id          [key],
    reason          text,
    left_out        bigint NOT NULL,
    late            bigint NOT NULL,
    asked_by        text,
    PRIMARY KEY (workspace_id, schedule_id, number)
);
