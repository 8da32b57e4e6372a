-- Knowledge bases, the versions of their documents, and the passages of these. A version that is `gone` waits for the
-- removal of its passages, as a base does whose removed_at is set; `removed`: for the rewriting of the text index. Times are UTC epoch milliseconds.
CREATE TABLE knowledge_bases (
    workspace_id  [key] NOT NULL,
    base_id       [key] NOT NULL,      -- random: a base that is made again under the same kb_id is another one
    kb_id         [key] NOT NULL,
    spec          text NOT NULL,       -- JSON: the entry
    passage_chars bigint NOT NULL,
    cut_again     bigint NOT NULL DEFAULT 0,   -- 1: documents are to be cut into passages of another length
    passages      bigint NOT NULL DEFAULT 0,   -- that searches find, and their characters
    chars         bigint NOT NULL DEFAULT 0,
    made_by       text NOT NULL,
    created_at    bigint NOT NULL,
    changed_at    bigint NOT NULL,
    removed_at    bigint,
    PRIMARY KEY (workspace_id, base_id)
);
CREATE UNIQUE INDEX knowledge_bases_by_kb ON knowledge_bases (workspace_id, kb_id) WHERE removed_at IS NULL;
CREATE INDEX knowledge_bases_to_cut ON knowledge_bases (changed_at) WHERE cut_again = 1 AND removed_at IS NULL;
CREATE INDEX knowledge_bases_removed ON knowledge_bases (removed_at) WHERE removed_at IS NOT NULL;

-- version_id: the newest version; live_id: the one that searches find.
CREATE TABLE knowledge_documents (
    workspace_id  [key] NOT NULL,
    base_id       [key] NOT NULL,
    name          [key] NOT NULL,
    version_id    [key] NOT NULL,
    live_id       [key],
    put_by        text NOT NULL,
    created_at    bigint NOT NULL,
    changed_at    bigint NOT NULL,
    PRIMARY KEY (workspace_id, base_id, name)
);

CREATE TABLE knowledge_versions (
    workspace_id    [key] NOT NULL,
    version_id      [key] NOT NULL,
    base_id         [key] NOT NULL,
    name            [key] NOT NULL,
    mime_type       text NOT NULL,
    size_bytes      bigint NOT NULL,
    sha256          text NOT NULL,
    stored_as       text,
    metadata        text NOT NULL,     -- JSON
    passage_chars   bigint NOT NULL,
    state           text NOT NULL,     -- waiting, indexing, ready, failed, gone, removed
    reason          text,
    passages_done   bigint NOT NULL DEFAULT 0,
    passages_total  bigint,
    chars           bigint NOT NULL DEFAULT 0,
    attempts        bigint NOT NULL DEFAULT 0,
    claimed_by      text,
    claimed_until   bigint NOT NULL DEFAULT 0,
    created_at      bigint NOT NULL,
    indexed_at      bigint,
    PRIMARY KEY (workspace_id, version_id)
);
CREATE INDEX knowledge_versions_by_base ON knowledge_versions (workspace_id, base_id, state);
CREATE INDEX knowledge_versions_work ON knowledge_versions (workspace_id, created_at)
    WHERE state IN ('waiting', 'indexing');
CREATE INDEX knowledge_versions_gone ON knowledge_versions (workspace_id, version_id) WHERE state = 'gone';
CREATE INDEX knowledge_versions_removed ON knowledge_versions (workspace_id, version_id) WHERE state = 'removed';

CREATE TABLE knowledge_passages (
    passage_id    integer PRIMARY KEY AUTOINCREMENT,  -- never used again: the index may still know an erased one
    workspace_id  [key] NOT NULL,
    base_id       [key] NOT NULL,
    version_id    [key] NOT NULL,
    number        bigint NOT NULL,
    heading       text NOT NULL,
    passage       text NOT NULL,
    chars         bigint NOT NULL
);
CREATE UNIQUE INDEX knowledge_passages_by_number ON knowledge_passages (workspace_id, version_id, number);

-- Like transcript_search: without content, positions and lengths. rowid is knowledge_passages.passage_id.
CREATE VIRTUAL TABLE knowledge_search USING fts5 (
    tokens, content='', tokenize='ascii', detail=none, columnsize=0
);
