-- People who sign in: members of workspaces, their sessions and their keys.

-- One row per membership. subject is NULL until the invited person signs in; a removed member keeps its row, since
-- facts name its subject. groups is a JSON list, as the provider named them at the last sign-in.
CREATE TABLE members (
    workspace_id [key] NOT NULL,
    member_id    [key] NOT NULL,
    subject      [key],
    email        [key],
    name         text NOT NULL,
    role         text NOT NULL,
    source       text NOT NULL,     -- invited | claims
    groups       text NOT NULL,
    created_at   bigint NOT NULL,
    created_by   text NOT NULL,
    signed_in_at bigint,
    removed_at   bigint,
    PRIMARY KEY (workspace_id, member_id)
);
CREATE UNIQUE INDEX members_by_subject ON members (subject, workspace_id) WHERE removed_at IS NULL AND subject IS NOT NULL;
CREATE UNIQUE INDEX members_invited ON members (email, workspace_id) WHERE removed_at IS NULL AND subject IS NULL;
CREATE INDEX members_of_subject ON members (workspace_id, subject);

-- Sessions of members, by the hash of their token.
CREATE TABLE sessions (
    workspace_id [key] NOT NULL,
    session_id   [key] NOT NULL,
    member_id    [key] NOT NULL,
    token_hash   [key] NOT NULL,
    provider     text NOT NULL,
    issuer       text NOT NULL,
    agent        text NOT NULL,     -- how the browser calls itself
    created_at   bigint NOT NULL,
    seen_at      bigint NOT NULL,
    idle_ms      bigint NOT NULL,
    expires_at   bigint NOT NULL,
    revoked_at   bigint,
    PRIMARY KEY (workspace_id, session_id)
);
CREATE UNIQUE INDEX sessions_by_hash ON sessions (token_hash);
CREATE INDEX sessions_by_member ON sessions (workspace_id, member_id, created_at);

-- Sign-ins that were finished: each is good for one session.
CREATE TABLE sign_ins (
    state_hash [key] PRIMARY KEY,
    expires_at bigint NOT NULL
);
CREATE INDEX sign_ins_by_expiry ON sign_ins (expires_at);

ALTER TABLE api_keys ADD COLUMN member_id [key];
CREATE INDEX api_keys_by_member ON api_keys (workspace_id, member_id) WHERE member_id IS NOT NULL;
