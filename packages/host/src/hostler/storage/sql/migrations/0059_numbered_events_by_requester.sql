-- Events by who sent them, once they are numbered: the row of a new one had an entry without a number, at another place
-- of the index, which was written and removed in the same transaction.
DROP INDEX events_by_requester;
CREATE INDEX events_by_requester ON events (workspace_id, requester, seq) WHERE seq IS NOT NULL;
