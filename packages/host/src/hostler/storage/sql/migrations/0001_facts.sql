-- Events, transcripts, artifacts, state, agents, runs and their journal.
-- Portable column types only: text, bigint (UTC epoch milliseconds unless noted), and [blob] (BLOB or BYTEA).
-- [key] marks an id or key column: COLLATE "C" on PostgreSQL, so that both databases order alike.
-- Every table with tenant data begins with workspace_id.

-- One row per (workspace, chain): the last used sequence and its digest. Chains: 'events' and 'audit' (hash-chained),
-- 'transcript' (a sequence only; digest stays empty), 'claims' (when the workspace was last served, for fairness
-- between workspaces).
CREATE TABLE heads (
    workspace_id [key] NOT NULL,
    chain        [key] NOT NULL,
    seq          bigint NOT NULL,
    digest       text NOT NULL,
    PRIMARY KEY (workspace_id, chain)
) [without_rowid];

-- The event log. body is the envelope as stored (JSON; inline base64 replaced by artifact references);
-- NULL once deleted, while body_digest and digest stay. request_digest distinguishes a repeated delivery from a
-- conflicting one. seq and digest are NULL only inside the transaction that inserts the row.
CREATE TABLE events (
    workspace_id    [key] NOT NULL,
    event_id        [key] NOT NULL,
    seq             bigint,
    body_digest     text NOT NULL,
    digest          text,
    request_digest  text NOT NULL,
    event_type      text NOT NULL,
    source          text NOT NULL,
    bot_id          [key],
    conversation_id [key],
    thread_id       [key],
    actor_type      text,
    actor_id        [key],
    actor_name      text,
    subject_type    text,
    subject_id      [key],
    input_summary   text NOT NULL,
    body            text,
    content_redacted bigint NOT NULL, -- 1: inline content was replaced by artifact references
    requester       text,            -- authenticated subject that sent it
    -- What changes later stands outside the body and the chain:
    outcome         text NOT NULL,   -- started | steered | queued | rejected | unrouted | conflict
    run_id          [key],
    routing         text NOT NULL,   -- JSON: candidates, filter errors, reason
    steering        text,            -- JSON: HOST.md section 8
    event_time      bigint,
    created_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, event_id)
);
CREATE UNIQUE INDEX events_by_seq ON events (workspace_id, seq);
CREATE INDEX events_by_conversation ON events (workspace_id, conversation_id, seq);

-- The transcript: one row per completed message of a user or an assistant.
-- size_bytes is the size of the item in a page, so that pages are bounded in bytes without reading items that do not fit.
CREATE TABLE transcripts (
    workspace_id    [key] NOT NULL,
    seq             bigint NOT NULL,
    transcript_id   [key] NOT NULL,
    event_id        [key],
    run_id          [key],
    bot_id          [key],
    conversation_id [key],
    thread_id       [key],
    role            text NOT NULL,
    item_type       text NOT NULL,
    message_id      [key],
    content         text NOT NULL,
    content_json    text NOT NULL,
    search_text     text NOT NULL,   -- folded text of the message: what the index holds, and what hits are verified on
    artifact_refs   text NOT NULL,
    metadata        text NOT NULL,
    size_bytes      bigint NOT NULL,
    created_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, seq)
);
CREATE INDEX transcripts_by_conversation ON transcripts (workspace_id, conversation_id, seq);
-- For runs, which read their own bot and thread: the cost does not grow with the other threads of a conversation.
CREATE INDEX transcripts_by_thread ON transcripts
    (workspace_id, conversation_id, COALESCE(thread_id, ''), COALESCE(bot_id, ''), seq);
CREATE INDEX transcripts_by_event ON transcripts (workspace_id, event_id) WHERE event_id IS NOT NULL;
CREATE INDEX transcripts_by_run ON transcripts (workspace_id, run_id, seq);

-- Blobs are stored once by content. refs counts the artifacts and journal entries that refer to a blob; gc removes a
-- blob without references after a grace time.
CREATE TABLE blobs (
    sha256      [key] PRIMARY KEY,
    size_bytes  bigint NOT NULL,
    refs        bigint NOT NULL,
    created_at  bigint NOT NULL,
    unreferenced_at bigint
);
CREATE INDEX blobs_unreferenced ON blobs (unreferenced_at) WHERE unreferenced_at IS NOT NULL;

CREATE TABLE artifacts (
    workspace_id    [key] NOT NULL,
    artifact_id     [key] NOT NULL,
    artifact_type   text NOT NULL,
    mime_type       text,
    name            text,
    size_bytes      bigint NOT NULL,
    sha256          [key] NOT NULL,
    source          text NOT NULL,   -- event | run | upload | registered
    registered_path text,            -- only for files registered in place (JSON: path, stamp); never shown outside
    event_id        [key],           -- the event that brought it
    bot_id          [key],
    conversation_id [key],
    thread_id       [key],
    run_id          [key],
    runner_id       [key],
    metadata        text NOT NULL,
    created_at      bigint NOT NULL,
    expires_at      bigint,
    PRIMARY KEY (workspace_id, artifact_id)
);
CREATE INDEX artifacts_by_expiry ON artifacts (expires_at);
CREATE INDEX artifacts_by_run ON artifacts (workspace_id, run_id);
CREATE INDEX artifacts_by_conversation ON artifacts (workspace_id, conversation_id);
CREATE INDEX artifacts_by_event ON artifacts (workspace_id, event_id) WHERE event_id IS NOT NULL;

-- Unfinished uploads. Each part is a separate blob until the last one joins them.
CREATE TABLE uploads (
    workspace_id [key] NOT NULL,
    upload_id    [key] NOT NULL,
    run_id       [key] NOT NULL,
    next_part    bigint NOT NULL,
    size_bytes   bigint NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, upload_id)
);
CREATE INDEX uploads_by_run ON uploads (workspace_id, run_id);
CREATE TABLE upload_parts (
    workspace_id [key] NOT NULL,
    upload_id    [key] NOT NULL,
    part         bigint NOT NULL,
    sha256       [key] NOT NULL,
    size_bytes   bigint NOT NULL,
    PRIMARY KEY (workspace_id, upload_id, part)
);

-- State: JSON values by (storage key, key). scope_key is the digest of domain/scopes.py.
-- A deleted value leaves an empty text (no JSON is empty), so that its version is never used again. conversation_id,
-- actor_type and actor_id (of the subject in the subject scope) are used for deletion only.
CREATE TABLE states (
    workspace_id    [key] NOT NULL,
    scope_key       [key] NOT NULL,
    key             [key] NOT NULL,
    scope           text NOT NULL,
    value           text NOT NULL,
    version         bigint NOT NULL,
    agent_id        [key] NOT NULL,
    conversation_id [key],
    actor_type      text,
    actor_id        [key],
    updated_at      bigint NOT NULL,
    PRIMARY KEY (workspace_id, scope_key, key)
);
CREATE INDEX states_by_conversation ON states (workspace_id, conversation_id);
CREATE INDEX states_by_actor ON states (workspace_id, actor_id) WHERE actor_id IS NOT NULL;

-- Plugin and workspace storage. owner is the plugin key (author/name), or '' for the workspace's.
CREATE TABLE storage (
    workspace_id [key] NOT NULL,
    owner        [key] NOT NULL,
    key          [key] NOT NULL,
    value        [blob] NOT NULL,
    updated_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, owner, key)
);

-- Agents: the current version's number; every version's specification is kept.
CREATE TABLE agents (
    workspace_id [key] NOT NULL,
    name         [key] NOT NULL,
    agent_id     [key] NOT NULL,
    version      bigint NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    deleted_at   bigint,
    PRIMARY KEY (workspace_id, name)
);
CREATE UNIQUE INDEX agents_by_id ON agents (workspace_id, agent_id);
CREATE TABLE agent_versions (
    workspace_id [key] NOT NULL,
    agent_id     [key] NOT NULL,
    version      bigint NOT NULL,
    spec         text NOT NULL,      -- JSON of domain.agents.AgentSpec
    spec_digest  text NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, agent_id, version)
);

-- Runs. lane is the digest of (workspace, bot, agent, conversation, thread); active_lane repeats it while the
-- run holds its lane (claimed, running, paused) and is NULL otherwise or if the agent runs in parallel: its unique
-- index enforces one active run per lane. attempt is the fencing token. position and sequence are the last used ones.
CREATE TABLE runs (
    workspace_id    [key] NOT NULL,
    run_id          [key] NOT NULL,
    agent_id        [key] NOT NULL,
    agent_name      [key] NOT NULL,
    agent_version   bigint NOT NULL,
    runner_id       [key] NOT NULL,
    event_id        [key],
    parent_run_id   [key],
    bot_id          [key],
    conversation_id [key],
    thread_id       [key],
    requester       text,            -- authenticated subject that sent the event
    lane            [key] NOT NULL,
    active_lane     [key],
    parallel        bigint NOT NULL, -- 1: does not hold its lane
    priority        bigint NOT NULL,
    not_before      bigint,
    ordinal         bigint NOT NULL, -- order of opening, also within a millisecond: what queues go by
    status          text NOT NULL,
    status_code     text,
    attempt         bigint NOT NULL,
    crashes         bigint NOT NULL, -- recoveries after a crash, for max_attempts
    position        bigint NOT NULL,
    sequence        bigint NOT NULL,
    kept_sequence   bigint NOT NULL, -- sequence of the last message.completed (discard_after of a new attempt)
    host_id         [key],           -- who claimed it
    cancel_reason   text,            -- set when cancellation was asked for
    grant_json      text,            -- frozen at the first claim
    binding         text NOT NULL,   -- JSON: how the event was resolved
    usage           text,
    cost            text,            -- decimal as text
    created_at      bigint NOT NULL,
    started_at      bigint,
    finished_at     bigint,
    deadline_at     bigint,
    PRIMARY KEY (run_id)
);
CREATE UNIQUE INDEX runs_active_lane ON runs (active_lane);
CREATE INDEX runs_waiting ON runs (lane, ordinal) WHERE status = 'queued';
CREATE INDEX runs_queued ON runs (workspace_id, priority DESC, ordinal) WHERE status = 'queued';
CREATE INDEX runs_active ON runs (run_id) WHERE status IN ('claimed', 'running');
CREATE INDEX runs_by_created ON runs (workspace_id, created_at, run_id);
CREATE INDEX runs_by_conversation ON runs (workspace_id, conversation_id, created_at, run_id);
CREATE INDEX runs_by_parent ON runs (parent_run_id, run_id) WHERE parent_run_id IS NOT NULL;
CREATE INDEX runs_by_finished ON runs (workspace_id, finished_at, run_id) WHERE finished_at IS NOT NULL;

-- The journal. A row is one entry, or a batch of consecutive deltas with the positions last_position - count + 1 to
-- last_position, and sequences alike. data of a batch is one JSON text per line.
-- kind: lifecycle | context | attempt | result | intent | call | warning | refusal | steering | decision
CREATE TABLE journal (
    run_id        [key] NOT NULL,
    last_position bigint NOT NULL,
    count         bigint NOT NULL,
    last_sequence bigint,            -- NULL: not a result
    attempt       bigint NOT NULL,
    kind          text NOT NULL,
    type          text NOT NULL,
    data          text NOT NULL,
    blob          [key],             -- sha256 where data was too large to stand inline
    at            bigint NOT NULL,
    workspace_id  [key] NOT NULL,
    PRIMARY KEY (run_id, last_position)
) [without_rowid];
CREATE UNIQUE INDEX journal_by_sequence ON journal (run_id, last_sequence) WHERE last_sequence IS NOT NULL;

-- Audit facts, in their own hash chain.
CREATE TABLE audit (
    workspace_id [key] NOT NULL,
    audit_id     [key] NOT NULL,
    seq          bigint,
    body_digest  text NOT NULL,
    digest       text,
    actor        text NOT NULL,
    action       text NOT NULL,
    target       text NOT NULL,
    body         text NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, audit_id)
);
CREATE UNIQUE INDEX audit_by_seq ON audit (workspace_id, seq);

-- API keys; only a hash is stored. plugin is the identity that the key of a remote plugin is bound to.
CREATE TABLE api_keys (
    key_id       [key] PRIMARY KEY,
    workspace_id [key] NOT NULL,
    key_hash     [key] NOT NULL,
    name         text NOT NULL,
    subject      text NOT NULL,
    roles        text NOT NULL,
    rights       text NOT NULL,
    plugin       text,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint
);
CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (key_hash);

-- Idempotency-Key of HTTP POSTs, with the answer to the first one.
CREATE TABLE idempotency (
    workspace_id [key] NOT NULL,
    caller       [key] NOT NULL,
    key          [key] NOT NULL,
    body_digest  text NOT NULL,
    status       bigint NOT NULL,    -- 0: not answered yet
    answer       text,
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, caller, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Configuration other than agents: plugins, models, tools; one row per entry, as in the configuration file.
CREATE TABLE settings (
    workspace_id [key] NOT NULL,
    kind         [key] NOT NULL,     -- plugin | model | tool
    name         [key] NOT NULL,
    spec         text NOT NULL,
    updated_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, kind, name)
);

-- Hosts on this database and their leases (database time).
CREATE TABLE hosts (
    host_id      [key] PRIMARY KEY,
    address      text NOT NULL,
    started_at   bigint NOT NULL,
    lease_until  bigint NOT NULL
);

-- Keys of this installation, such as the key that signs cursors.
CREATE TABLE installation (
    name  [key] PRIMARY KEY,
    value [blob] NOT NULL
);

-- Progress of retention per workspace and kind: a sequence (events) or a time in ms (journals, deltas).
CREATE TABLE sweeps (
    workspace_id [key] NOT NULL,
    kind         [key] NOT NULL,
    swept_until  bigint NOT NULL,
    PRIMARY KEY (workspace_id, kind)
);
