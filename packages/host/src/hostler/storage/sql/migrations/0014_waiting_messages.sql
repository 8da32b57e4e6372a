-- Messages of people that no run has taken up yet. A message moves to the transcript when a run begins with it or pulls
-- it, or ends without having done so. item is the later transcript item as JSON; the other columns are for look-ups.
CREATE TABLE waiting_messages (
    workspace_id    [key] NOT NULL,
    event_id        [key] NOT NULL,
    bot_id          [key],
    conversation_id [key],
    thread_id       [key],
    item            text NOT NULL,
    size_bytes      bigint NOT NULL, -- what it takes of a page
    created_at      bigint NOT NULL, -- when it was said
    PRIMARY KEY (workspace_id, event_id)
);
CREATE INDEX waiting_messages_by_conversation ON waiting_messages (workspace_id, conversation_id, created_at)
    WHERE conversation_id IS NOT NULL;
