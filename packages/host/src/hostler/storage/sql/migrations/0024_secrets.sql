-- Secrets, encrypted. value is sealed under a key of its own; data_key is that key, wrapped by a master key.
-- owner: installation (for entries of the configuration) or workspace (for its agents).
CREATE TABLE secrets (
    workspace_id  [key] NOT NULL,
    owner         [key] NOT NULL,
    name          [key] NOT NULL,
    version       bigint NOT NULL,
    data_key      [blob] NOT NULL,
    value         [blob] NOT NULL,
    set_by        text NOT NULL,
    set_at        bigint NOT NULL,
    created_at    bigint NOT NULL,
    used_by       text,
    used_at       bigint,
    PRIMARY KEY (workspace_id, owner, name)
);
