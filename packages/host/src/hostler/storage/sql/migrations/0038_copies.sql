-- Messages and files that were copied into another conversation, so that deleting a person's data finds them, too.
-- name: item:SEQ or file:ARTIFACT. event_id and run_id: those of the original.
CREATE TABLE copies (
    workspace_id    [key] NOT NULL,
    name            [key] NOT NULL,
    conversation_id [key] NOT NULL,
    event_id        [key],
    run_id          [key],
    PRIMARY KEY (workspace_id, name)
);
CREATE INDEX copies_by_event ON copies (workspace_id, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX copies_by_run ON copies (workspace_id, run_id) WHERE run_id IS NOT NULL;
