-- Browsers that signed in with a key: their sessions have a key_id and no member_id, and the origin of their page.
ALTER TABLE sessions ADD COLUMN key_id [key];
ALTER TABLE sessions ADD COLUMN origin text;
CREATE INDEX sessions_of_key ON sessions (workspace_id, key_id, created_at) WHERE key_id IS NOT NULL;

-- Links that sign a browser in, once each, by the hash of their code. The session is one of the key that made the link.
CREATE TABLE sign_in_links (
    workspace_id [key] NOT NULL,
    token_hash    [key] NOT NULL,
    key_id       [key] NOT NULL,
    issuer       text NOT NULL,
    expires_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, token_hash)
);
CREATE UNIQUE INDEX sign_in_links_by_hash ON sign_in_links (token_hash);
CREATE INDEX sign_in_links_of_key ON sign_in_links (workspace_id, key_id, expires_at);
