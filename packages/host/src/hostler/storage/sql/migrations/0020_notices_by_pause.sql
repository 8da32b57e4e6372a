-- A deletion on request finds the notices of a pause by the pause: their times may be of a clock that was set.
CREATE INDEX notices_by_pause ON notices (workspace_id, pause_id);
