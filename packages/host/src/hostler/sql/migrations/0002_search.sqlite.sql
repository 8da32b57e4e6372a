-- Full-text index over the tokens of stores/tokens.py; contentless: the text itself stands in transcripts.
-- rowid is transcript_docs.doc. Deleting needs contentless_delete (SQLite 3.43), so rows of deleted
-- messages stay in the index and are dropped where hits are verified.
CREATE TABLE transcript_docs (
    doc          integer PRIMARY KEY,
    workspace_id text NOT NULL,
    seq          bigint NOT NULL
);
CREATE UNIQUE INDEX transcript_docs_by_seq ON transcript_docs (workspace_id, seq);
CREATE VIRTUAL TABLE transcript_search USING fts5 (tokens, content='', tokenize='unicode61 remove_diacritics 0');
