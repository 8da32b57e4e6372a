-- Full-text index over the tokens of stores/tokens.py.
CREATE TABLE transcript_search (
    workspace_id    text COLLATE "C" NOT NULL,
    seq             bigint NOT NULL,
    conversation_id text COLLATE "C",
    tokens          tsvector NOT NULL,
    PRIMARY KEY (workspace_id, seq)
);
CREATE INDEX transcript_search_tokens ON transcript_search USING gin (tokens);
