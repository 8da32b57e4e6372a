-- Budgets have reservations, what people added, and more quantities. Daily accounts have a day, others have day 0.
ALTER TABLE budget_use ADD COLUMN tool_calls bigint NOT NULL DEFAULT 0;
ALTER TABLE budget_use ADD COLUMN seconds bigint NOT NULL DEFAULT 0;           -- in milliseconds
ALTER TABLE budget_use ADD COLUMN reserved_tokens bigint NOT NULL DEFAULT 0;   -- sum of its reservations
ALTER TABLE budget_use ADD COLUMN reserved_cost bigint NOT NULL DEFAULT 0;
ALTER TABLE budget_use ADD COLUMN added_calls bigint NOT NULL DEFAULT 0;       -- sum of its top-ups
ALTER TABLE budget_use ADD COLUMN added_tokens bigint NOT NULL DEFAULT 0;
ALTER TABLE budget_use ADD COLUMN added_cost bigint NOT NULL DEFAULT 0;
ALTER TABLE budget_use ADD COLUMN added_tool_calls bigint NOT NULL DEFAULT 0;
ALTER TABLE budget_use ADD COLUMN added_seconds bigint NOT NULL DEFAULT 0;
ALTER TABLE budget_use ADD COLUMN added_by text;          -- who added last
ALTER TABLE budget_use ADD COLUMN limits text;            -- JSON: those of the last call that was charged
ALTER TABLE budget_use ADD COLUMN agent_name text;
ALTER TABLE budget_use ADD COLUMN conversation_id [key];
ALTER TABLE budget_use ADD COLUMN person text;
CREATE INDEX budget_use_by_conversation ON budget_use (workspace_id, conversation_id)
    WHERE conversation_id IS NOT NULL;

-- What calls of models that are under way, or were lost, may have used at most. The row goes when that is known.
CREATE TABLE budget_reservations (
    workspace_id   [key] NOT NULL,
    reservation_id [key] NOT NULL,
    run_id         [key] NOT NULL,
    attempt        bigint NOT NULL,
    method         text NOT NULL,
    accounts       text NOT NULL,    -- JSON: the accounts it is reserved in
    tokens         bigint NOT NULL,
    cost           bigint NOT NULL,
    output         bigint NOT NULL,  -- the tokens of output that it allows
    created_at     bigint NOT NULL,
    PRIMARY KEY (workspace_id, reservation_id)
);
CREATE INDEX budget_reservations_by_run ON budget_reservations (run_id);

-- What people added to an account.
CREATE TABLE budget_top_ups (
    workspace_id [key] NOT NULL,
    top_up_id    [key] NOT NULL,
    span         [key] NOT NULL,
    owner_id     [key] NOT NULL,
    day          bigint NOT NULL,
    amounts      text NOT NULL,      -- JSON
    subject      text NOT NULL,
    key_id       text NOT NULL,      -- how the subject was authenticated
    comment      text,
    run_id       [key],              -- of the call for which it was asked
    pause_id     [key],
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, top_up_id)
);
CREATE INDEX budget_top_ups_by_account ON budget_top_ups (workspace_id, span, owner_id, day, created_at);

-- Calls that wait until a budget has enough left: looked at whenever somebody adds to one.
CREATE INDEX pause_calls_of_budgets ON pause_calls (created_at) WHERE kind = 'budget' AND decision = 'undecided';
