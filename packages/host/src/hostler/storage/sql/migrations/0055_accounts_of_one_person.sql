-- The plugin's channel that the channel of a subject person:CHANNEL/ID was when the account was bound to it: with another one
-- it is another person.
ALTER TABLE people ADD COLUMN subject_channel_of text;

-- Chats of channels. person_id: who writes there, if it is private; null: it is or was a group, or several people have
-- written. channel_of: the plugin's channel that the entry was. after_seq: the newest sequence of the transcript when the
-- chat was first seen.
CREATE TABLE chats (
    workspace_id    [key] NOT NULL,
    conversation_id [key] NOT NULL,
    channel         [key] NOT NULL,
    channel_of      text NOT NULL,
    bot_id          [key],
    person_id       [key],
    after_seq       bigint NOT NULL,
    PRIMARY KEY (workspace_id, conversation_id)
);
CREATE INDEX chats_of_person ON chats (workspace_id, person_id, channel) WHERE person_id IS NOT NULL;

-- Where runs had the state of a subject: by which account, in which conversation, and since when (UTC epoch milliseconds, and
-- the number of the first event). person_id: of a subject person:CHANNEL/ID. run_id: of a run without a conversation; each of
-- the two is '' where the other is not. Deletion finds copies by it.
CREATE TABLE state_readers (
    workspace_id    [key] NOT NULL,
    subject         [key] NOT NULL,
    actor_id        [key] NOT NULL,
    reader_id       [key] NOT NULL,
    run_id          [key] NOT NULL,
    person_id       [key],
    since           bigint NOT NULL,
    first_event     bigint NOT NULL,
    PRIMARY KEY (workspace_id, subject, actor_id, reader_id, run_id)
);
CREATE INDEX state_readers_by_actor ON state_readers (workspace_id, actor_id);
CREATE INDEX state_readers_by_person ON state_readers (workspace_id, person_id) WHERE person_id IS NOT NULL;
CREATE INDEX state_readers_by_reader ON state_readers (workspace_id, reader_id);

-- Conversations in which runs had the history of another one.
CREATE TABLE history_readers (
    workspace_id    [key] NOT NULL,
    conversation_id [key] NOT NULL,
    reader_id       [key] NOT NULL,
    since           bigint NOT NULL,
    first_event     bigint NOT NULL,
    PRIMARY KEY (workspace_id, conversation_id, reader_id)
);
CREATE INDEX history_readers_by_reader ON history_readers (workspace_id, reader_id);
