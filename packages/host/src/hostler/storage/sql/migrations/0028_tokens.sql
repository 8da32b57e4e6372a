-- Front-end tokens, by the hash of the token. made_by is the key that made it, with which it ends; subject NULL: that
-- of the conversation.
CREATE TABLE tokens (
    workspace_id    [key] NOT NULL,
    token_id        [key] NOT NULL,
    token_hash      [key] NOT NULL,
    made_by         [key] NOT NULL,
    agent           [key] NOT NULL,
    conversation_id [key] NOT NULL,
    subject         [key],
    rights          text NOT NULL,     -- a JSON list
    origins         text NOT NULL,     -- a JSON list; empty: any
    created_at      bigint NOT NULL,
    expires_at      bigint NOT NULL,
    revoked_at      bigint,
    PRIMARY KEY (workspace_id, token_id)
);
CREATE UNIQUE INDEX tokens_by_hash ON tokens (token_hash);
CREATE INDEX tokens_of_maker ON tokens (workspace_id, made_by, expires_at);
CREATE INDEX tokens_of_conversation ON tokens (workspace_id, conversation_id);
CREATE INDEX tokens_by_expiry ON tokens (workspace_id, expires_at);

-- Origins of pages that tokens name, until the last of these tokens expires: a browser asks before it sends a token.
CREATE TABLE token_origins (
    workspace_id [key] NOT NULL,
    origin       [key] NOT NULL,
    expires_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, origin)
);
CREATE INDEX token_origins_by_origin ON token_origins (origin, expires_at);
