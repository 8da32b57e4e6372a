-- Partial indexes with only the rows that are looked up: a run writes each page of an index twice, when it is accepted
-- and when it ends.
DROP INDEX runs_active_lane;
CREATE UNIQUE INDEX runs_active_lane ON runs (active_lane) WHERE active_lane IS NOT NULL;
DROP INDEX transcripts_by_run;
CREATE INDEX transcripts_by_run ON transcripts (workspace_id, run_id, seq) WHERE run_id IS NOT NULL;
DROP INDEX states_by_conversation;
CREATE INDEX states_by_conversation ON states (workspace_id, conversation_id) WHERE conversation_id IS NOT NULL;
