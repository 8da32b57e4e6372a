-- Plugins as they were first started, or as a person confirmed them since. requires: JSON; files: the digest of all
-- files, NULL if only the requirements are pinned.
CREATE TABLE plugin_pins (
    workspace_id [key] NOT NULL,
    plugin       [key] NOT NULL,     -- author/name
    source       text NOT NULL,      -- the folder
    version      text NOT NULL,
    requires     text NOT NULL,
    files        text,
    recorded_at  bigint NOT NULL,
    confirmed_at bigint,
    confirmed_by text,
    PRIMARY KEY (workspace_id, plugin)
);
-- What requirements were resolved to: uv's plan, with versions and digests, per kind of machine.
CREATE TABLE plugin_locks (
    workspace_id [key] NOT NULL,
    plugin       [key] NOT NULL,
    target       [key] NOT NULL,     -- Python and platform
    plan         text NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, plugin, target)
);
