-- Events by who sent them: the pages of hooks and channels read the last ones again and again.
CREATE INDEX events_by_requester ON events (workspace_id, requester, seq);
