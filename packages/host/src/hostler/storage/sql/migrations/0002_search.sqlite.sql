-- Full-text index over the tokens of stores/search_tokens.py; contentless, since the text is in transcripts. rowid is
-- transcript_docs.doc. The host tokenizes, so the tokenizer only has to split at blanks: `ascii` keeps every other
-- character. Hits are compared with the text, so the index needs no positions and no lengths.
CREATE TABLE transcript_docs (
    doc          integer PRIMARY KEY,
    workspace_id text NOT NULL,
    seq          bigint NOT NULL
);
CREATE UNIQUE INDEX transcript_docs_by_seq ON transcript_docs (workspace_id, seq);
CREATE VIRTUAL TABLE transcript_search USING fts5 (
    tokens, content='', tokenize='ascii', detail=none, columnsize=0
);
