-- From now on each event that is emptied is accounted for in the audit chain. Whether there are some from before:
-- the next start of a host accounts for them, once.
INSERT INTO installation (name, value)
SELECT 'unaccounted', CAST('1' AS [blob]) WHERE EXISTS (SELECT 1 FROM events WHERE body IS NULL);
