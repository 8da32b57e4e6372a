-- The timeline of a workspace: what its runs' journals got and which events arrived, in the one order in which that was
-- committed. A row stands for a piece of one journal (the positions last_position - count + 1 to last_position, which
-- have the sequences last_seq - count + 1 to last_seq), for an event, or for a conversation that was deleted.
-- conversation_id of a deletion is a digest.
CREATE TABLE timeline (
    workspace_id    [key] NOT NULL,
    last_seq        bigint NOT NULL,
    count           bigint NOT NULL,
    kind            text NOT NULL,   -- journal | event | deletion
    run_id          [key],
    last_position   bigint NOT NULL,
    event_id        [key],
    conversation_id [key],
    agent_name      [key],
    bot_id          [key],
    created_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, last_seq)
) [without_rowid];
CREATE INDEX timeline_by_conversation ON timeline (workspace_id, conversation_id, last_seq)
WHERE conversation_id IS NOT NULL;
