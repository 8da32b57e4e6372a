-- People of channels whom somebody has bound to a subject. channel_of: the plugin's channel that the entry had then, since
-- ids mean other people on another platform. conversation_id: of their private chat, if they wrote there. how: operator |
-- confirmed | code. Times are UTC epoch milliseconds.
CREATE TABLE people (
    workspace_id    [key] NOT NULL,
    channel         [key] NOT NULL,
    person_id       [key] NOT NULL,
    channel_of      text NOT NULL,
    name            text,
    subject         [key] NOT NULL,
    conversation_id [key],
    how             text NOT NULL,
    bound_by        text NOT NULL,
    bound_at        bigint NOT NULL,
    PRIMARY KEY (workspace_id, channel, person_id)
);
CREATE INDEX people_by_subject ON people (workspace_id, subject, channel, person_id);
CREATE INDEX people_by_person ON people (workspace_id, person_id);

-- Codes by which people are paired, as digests. asked: made for an unknown person of a channel, for the operator to
-- confirm or reject; one for each person. offered: made for a subject, for whoever types it in a private chat.
CREATE TABLE pairing_codes (
    workspace_id    [key] NOT NULL,
    digest          [key] NOT NULL,
    kind            text NOT NULL,   -- asked | offered
    status          text NOT NULL,   -- waiting | rejected
    channel         [key],
    person_id       [key],
    channel_of      text,
    name            text,
    chat_id         text,
    conversation_id [key],
    subject         [key],
    made_by         text NOT NULL,
    made_at         bigint NOT NULL,
    expires_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, digest)
);
CREATE UNIQUE INDEX pairing_codes_of_person ON pairing_codes (workspace_id, channel, person_id) WHERE kind = 'asked';
CREATE INDEX pairing_codes_of_subject ON pairing_codes (workspace_id, subject) WHERE kind = 'offered';
CREATE INDEX pairing_codes_by_made ON pairing_codes (workspace_id, kind, made_at, digest);
CREATE INDEX pairing_codes_by_person ON pairing_codes (workspace_id, person_id) WHERE kind = 'asked';
