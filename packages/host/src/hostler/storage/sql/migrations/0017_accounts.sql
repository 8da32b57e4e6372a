-- From now on each event that is emptied is accounted for in the audit chain. 'unaccounted' marks a database with earlier
-- ones: the next start of a host accounts for them, once.
INSERT INTO installation (name, value)
SELECT 'unaccounted', CAST('1' AS [blob]) WHERE EXISTS (SELECT 1 FROM events WHERE body IS NULL);
