-- Requests of platforms on their way to the host that has the channel, and back.

-- name: owner
-- The host that has a channel now.
SELECT host_id, lease_token AS token, abilities FROM channel_connections
WHERE workspace_id = :workspace_id AND channel = :channel AND lease_until > :now

-- name: insert
INSERT INTO forwarded_requests (workspace_id, request_id, channel, to_host, request, expires_at)
VALUES (:workspace_id, :request_id, :channel, :to_host, :request, :expires_at)

-- name: untaken
-- Requests for a host, and whether it has their channels.
SELECT f.request_id AS request_id, f.channel AS channel, c.host_id AS holder
FROM forwarded_requests AS f
LEFT JOIN channel_connections AS c ON c.workspace_id = f.workspace_id AND c.channel = f.channel
  AND c.host_id = f.to_host AND c.lease_until > :now
WHERE f.workspace_id = :workspace_id AND f.to_host = :host_id AND f.taken_at IS NULL AND f.expires_at > :now
ORDER BY f.expires_at, f.request_id LIMIT :limit

-- name: take
-- Whoever sent it may have withdrawn it, or have sent it elsewhere.
UPDATE forwarded_requests SET taken_at = :now
WHERE workspace_id = :workspace_id AND request_id = :request_id AND to_host = :host_id AND taken_at IS NULL

-- name: find
SELECT request_id, channel, request, expires_at FROM forwarded_requests
WHERE workspace_id = :workspace_id AND request_id = :request_id

-- name: answer
UPDATE forwarded_requests SET answer = :answer
WHERE workspace_id = :workspace_id AND request_id = :request_id AND channel = :channel AND to_host = :host_id
  AND taken_at IS NOT NULL AND answer IS NULL

-- name: states
-- Where requests are, and who has their channels now.
SELECT f.request_id AS request_id, f.taken_at AS taken_at, f.answer AS answer, c.host_id AS host_id,
       c.lease_token AS token, c.abilities AS abilities
FROM forwarded_requests AS f
LEFT JOIN channel_connections AS c ON c.workspace_id = f.workspace_id AND c.channel = f.channel AND c.lease_until > :now
WHERE f.workspace_id = :workspace_id AND f.request_id IN [texts :request_ids] LIMIT :limit

-- name: redirect
-- A request that no plugin has been given goes to another host.
UPDATE forwarded_requests SET to_host = :to_host, taken_at = NULL, answer = NULL
WHERE workspace_id = :workspace_id AND request_id = :request_id AND (taken_at IS NULL OR answer IS NOT NULL)

-- name: withdraw
DELETE FROM forwarded_requests
WHERE workspace_id = :workspace_id AND request_id = :request_id AND (taken_at IS NULL OR answer IS NOT NULL)

-- name: delete
DELETE FROM forwarded_requests WHERE workspace_id = :workspace_id AND request_id = :request_id

-- name: old
SELECT request_id FROM forwarded_requests
WHERE workspace_id = :workspace_id AND expires_at < :before ORDER BY expires_at LIMIT :limit
