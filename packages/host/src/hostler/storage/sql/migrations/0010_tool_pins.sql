-- Tools of servers that the operator does not control: as they were approved, and as they were last seen.
-- digest and definition are those of the approved tool, NULL if it never was; both definitions are JSON.
CREATE TABLE tool_pins (
    workspace_id     [key] NOT NULL,
    owner            [key] NOT NULL,
    tool             [key] NOT NULL,
    digest           text,
    definition       text,
    seen_digest      text NOT NULL,
    seen_definition  text NOT NULL,
    approved_by      text,
    approved_at      bigint,
    seen_at          bigint NOT NULL,
    PRIMARY KEY (workspace_id, owner, tool)
);
