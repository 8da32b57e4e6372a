-- Pauses of runs, their calls and decisions. Times are UTC epoch milliseconds.

-- status: open | ready | resuming | needs_review | resumed | cancelled | superseded | failed (domain/pauses.py).
-- epoch is the last attempt of the run that resumed it (0: none yet); it only rises. The lease of that claim is the one
-- of the attempt's host. Rows are not reused: the next pause of a run is a new row.
CREATE TABLE pauses (
    workspace_id    [key] NOT NULL,
    pause_id        [key] NOT NULL,
    run_id          [key] NOT NULL,
    segment         bigint NOT NULL, -- 1, 2 ... per run
    conversation_id [key],
    requester       text,            -- authenticated subject that sent the event
    status          text NOT NULL,
    revision        bigint NOT NULL, -- rises when something is asked again
    form            text NOT NULL,   -- implicit | explicit
    epoch           bigint NOT NULL,
    attempts        bigint NOT NULL, -- attempts at going on that were lost
    agent_version   bigint NOT NULL,
    on_message      text NOT NULL,   -- hold | supersede | reject
    state           [blob],          -- the runner's own state (explicit form), perhaps sealed
    state_digest    text,            -- of the state before it was sealed
    state_blob      [key],           -- sha256 of a state that is too large to stand here
    state_format    bigint NOT NULL,
    data_key        [blob],          -- the wrapped key a sealed state needs
    created_at      bigint NOT NULL,
    expires_at      bigint,          -- when the next undecided call expires
    parked_at       bigint,          -- since when the run is paused for it; NULL: the run holds the calls itself
    settled_at      bigint,
    resumed_by      text,            -- who gave the last decision
    PRIMARY KEY (workspace_id, pause_id)
);
CREATE UNIQUE INDEX pauses_by_run ON pauses (run_id, segment);
CREATE UNIQUE INDEX pauses_unsettled ON pauses (run_id)
    WHERE status IN ('open', 'ready', 'resuming', 'needs_review');
CREATE INDEX pauses_by_created ON pauses (workspace_id, created_at, pause_id);
CREATE INDEX pauses_by_conversation ON pauses (workspace_id, conversation_id, created_at, pause_id);
CREATE INDEX pauses_expiring ON pauses (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;
CREATE INDEX pauses_ready ON pauses (run_id) WHERE status = 'ready';
CREATE INDEX pauses_by_settled ON pauses (workspace_id, settled_at) WHERE settled_at IS NOT NULL;

-- decision: undecided | approved | denied | answered | cancelled | expired. execution: none | reserved | succeeded |
-- failed | in_doubt. asked: JSON, frozen when the call is asked: pin, rule, schemas, proposed arguments.
CREATE TABLE pause_calls (
    workspace_id  [key] NOT NULL,
    pause_id      [key] NOT NULL,
    call_id       [key] NOT NULL,
    run_id        [key] NOT NULL,
    ordinal       bigint NOT NULL,
    kind          text NOT NULL,     -- approval | client_tool | question | in_doubt
    revision      bigint NOT NULL,   -- of the pause, when this call was asked last
    asked         text NOT NULL,
    effective     text,              -- JSON of edited arguments; NULL: as proposed
    args_hash     text NOT NULL,     -- digest of the effective arguments
    edited_by     text,
    decision      text NOT NULL,
    decided_by    text,
    decided_at    bigint,
    given         text,              -- JSON: comment, result, values ... of the decision
    similar_id    [key],             -- the approval rule that decided in its approver's stead
    execution     text NOT NULL,
    epoch         bigint NOT NULL,   -- under which it was reserved last
    effect_key    text,
    resolution    bigint NOT NULL,   -- how often a person said that it had not happened
    review        text,              -- why somebody has to look at it
    handed_over   bigint NOT NULL,   -- 1: its outcome was given to the runner
    created_at    bigint NOT NULL,
    expires_at    bigint,            -- NULL: never
    PRIMARY KEY (workspace_id, pause_id, call_id)
);
CREATE INDEX pause_calls_by_run ON pause_calls (run_id, call_id);
CREATE INDEX pause_calls_changed ON pause_calls (pause_id) WHERE review = 'changed';

-- Votes: by which person and key, for which arguments. Never changed; decisions are counted from them.
CREATE TABLE decision_votes (
    workspace_id  [key] NOT NULL,
    pause_id      [key] NOT NULL,
    call_id       [key] NOT NULL,
    revision      bigint NOT NULL,
    args_hash     text NOT NULL,
    subject       [key] NOT NULL,
    key_id        [key] NOT NULL,    -- how the subject was authenticated
    vote          text NOT NULL,     -- approve | deny | result | error | answer | happened | not_happened
    comment       text,
    created_at    bigint NOT NULL,
    PRIMARY KEY (workspace_id, pause_id, call_id, revision, args_hash, subject, key_id)
);

-- Idempotency-Key of actions, written in the transaction of the decisions.
CREATE TABLE action_requests (
    workspace_id  [key] NOT NULL,
    pause_id      [key] NOT NULL,
    key_id        [key] NOT NULL,
    request_key   [key] NOT NULL,
    body_digest   text NOT NULL,
    answer        text NOT NULL,
    created_at    bigint NOT NULL,
    PRIMARY KEY (workspace_id, pause_id, key_id, request_key)
);

-- "Approve similar": an approval that applies to further calls of the same tool, in one conversation, for one requester,
-- a number of times and until a time.
CREATE TABLE approval_rules (
    workspace_id  [key] NOT NULL,
    rule_id       [key] NOT NULL,
    agent_id      [key] NOT NULL,
    place         [key] NOT NULL,    -- digest of the conversation, or of the run where there is none
    tool_name     [key] NOT NULL,
    pin           text NOT NULL,     -- JSON: the tool must be this one still
    requester     text,
    arguments     text NOT NULL,     -- JSON: names of the arguments that must be equal; null: all
    args_digest   text NOT NULL,     -- digest of those arguments
    approver_rule text NOT NULL,     -- JSON: the rule its maker satisfied
    subject       [key] NOT NULL,
    key_id        [key] NOT NULL,
    pause_id      [key] NOT NULL,
    call_id       [key] NOT NULL,
    uses_left     bigint NOT NULL,
    created_at    bigint NOT NULL,
    expires_at    bigint NOT NULL,
    revoked_at    bigint,
    PRIMARY KEY (workspace_id, rule_id)
);
CREATE INDEX approval_rules_by_tool ON approval_rules (workspace_id, place, tool_name, expires_at);
