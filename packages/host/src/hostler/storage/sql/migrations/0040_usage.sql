-- Reports of use read the runs of a period from this index alone: rows of runs are long, with their grants.
DROP INDEX runs_by_created;
CREATE INDEX runs_by_created ON runs
    (workspace_id, created_at, run_id, agent_name, requester, status, started_at, finished_at, usage, cost);

-- Calls of models, written with their outcome in the journal. They stay as the cost of runs does, and hold no content.
CREATE TABLE model_calls (
    workspace_id  [key] NOT NULL,
    at            bigint NOT NULL,
    call_id       [key] NOT NULL,
    run_id        [key] NOT NULL,
    agent_name    [key] NOT NULL,
    model_id      [key] NOT NULL,
    outcome       text NOT NULL,     -- completed | failed | given_up
    milliseconds  bigint NOT NULL,
    input_tokens  bigint,
    output_tokens bigint,
    total_tokens  bigint,
    cached_tokens bigint,
    cost          text,              -- decimal as text
    PRIMARY KEY (workspace_id, at, call_id)
) [without_rowid];

-- The audit log by who, by what and by when; a list of one actor, action or target goes down its own index.
CREATE INDEX audit_by_actor ON audit (workspace_id, actor, seq);
CREATE INDEX audit_by_action ON audit (workspace_id, action, seq);
CREATE INDEX audit_by_target ON audit (workspace_id, target, seq);
CREATE INDEX audit_by_time ON audit (workspace_id, created_at, seq);
