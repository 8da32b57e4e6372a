-- Full-text index over the tokens of stores/search_tokens.py. Every search reads the list of pending entries, so it is
-- kept short.
CREATE TABLE transcript_search (
    workspace_id    text COLLATE "C" NOT NULL,
    seq             bigint NOT NULL,
    tokens          tsvector NOT NULL,
    PRIMARY KEY (workspace_id, seq)
);
CREATE INDEX transcript_search_tokens ON transcript_search USING gin (tokens) WITH (gin_pending_list_limit = 256);
