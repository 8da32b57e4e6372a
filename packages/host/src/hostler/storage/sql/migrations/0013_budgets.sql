-- Budget use: of a run (span 'run', day 0), and of an agent on each day (span 'day').
CREATE TABLE budget_use (
    workspace_id  [key] NOT NULL,
    span          [key] NOT NULL,
    owner_id      [key] NOT NULL,    -- the run, or the agent
    day           bigint NOT NULL,   -- days since 1970-01-01 UTC
    calls         bigint NOT NULL,
    tokens        bigint NOT NULL,
    cost          bigint NOT NULL,   -- in billionths
    updated_at    bigint NOT NULL,
    PRIMARY KEY (workspace_id, span, owner_id, day)
);
CREATE INDEX budget_use_updated ON budget_use (workspace_id, updated_at);
