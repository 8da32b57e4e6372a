-- What a channel's plugin can do, as JSON, by the one that opened the connection last: questions are shown in chats of
-- channels that the run did not come from.
ALTER TABLE channel_connections ADD COLUMN abilities text;
