-- Connections of channels.

-- name: acquire
-- A host gets a connection that nobody holds. Its own from before it was started it takes at once.
INSERT INTO channel_connections (workspace_id, channel, host_id, lease_token, lease_until, health, reason, received,
                                 ignored, restarts)
VALUES (:workspace_id, :channel, :host_id, :token, :lease_until, 'connecting', '', 0, 0, 0)
ON CONFLICT (workspace_id, channel) DO UPDATE
SET host_id = excluded.host_id, lease_token = excluded.lease_token, lease_until = excluded.lease_until,
    health = 'connecting', reason = ''
WHERE channel_connections.lease_until <= :now OR channel_connections.host_id = excluded.host_id

-- name: renew
UPDATE channel_connections SET lease_until = :lease_until
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_token = :token

-- name: release
UPDATE channel_connections SET lease_until = 0
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_token = :token

-- name: set_health
UPDATE channel_connections
SET health = :health, reason = :reason, account_id = COALESCE(:account_id, account_id),
    account_name = CASE WHEN CAST(:account_id AS text) IS NULL THEN account_name ELSE :account_name END
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_token = :token

-- name: set_opened
UPDATE channel_connections SET opened_at = :now, abilities = :abilities
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_token = :token

-- name: set_state
UPDATE channel_connections SET state = :state
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_token = :token

-- name: count
UPDATE channel_connections
SET received = received + :received, ignored = ignored + :ignored, last_event_at = :now
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_token = :token

-- name: request_restart
UPDATE channel_connections SET restarts = restarts + 1
WHERE workspace_id = :workspace_id AND channel = :channel

-- name: find
SELECT * FROM channel_connections WHERE workspace_id = :workspace_id AND channel = :channel

-- name: page
SELECT * FROM channel_connections WHERE workspace_id = :workspace_id ORDER BY channel LIMIT :limit

-- name: forget
DELETE FROM channel_connections
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_until <= :now
