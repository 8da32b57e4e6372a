-- Skills as they were recorded or confirmed (version, digest), and as they were last seen in their folder.
CREATE TABLE skills (
    workspace_id  [key] NOT NULL,
    name          [key] NOT NULL,
    source        text NOT NULL,     -- the folder
    version       text,
    digest        text NOT NULL,
    seen_version  text,
    seen_digest   text NOT NULL,
    recorded_at   bigint NOT NULL,
    confirmed_at  bigint,
    confirmed_by  text,
    PRIMARY KEY (workspace_id, name)
);
