-- Lists of runs by agent, by tool, and of those that did not succeed: newest first, each by an index of its own.
CREATE INDEX runs_by_agent ON runs (workspace_id, agent_name, created_at, run_id);
CREATE INDEX runs_unsuccessful ON runs (workspace_id, created_at, run_id)
    WHERE status IN ('failed', 'timeout', 'cancelled');

-- Which tools a run used: by calls of the host, or as its runner reported. They go with the run's journal.
CREATE TABLE run_tools (
    workspace_id    [key] NOT NULL,
    tool_name       [key] NOT NULL,
    created_at      bigint NOT NULL, -- of the run
    run_id          [key] NOT NULL,
    PRIMARY KEY (workspace_id, tool_name, created_at, run_id)
);
CREATE INDEX run_tools_of_run ON run_tools (run_id);

-- What a fork has instead of values of its agent's configuration: JSON; NULL: nothing.
ALTER TABLE run_sources ADD COLUMN config text;
