-- Front-end tokens. A token is looked up by its hash before its workspace is known: token_hash is unique everywhere.

-- name: insert
INSERT INTO tokens (workspace_id, token_id, token_hash, made_by, agent, conversation_id, subject, rights, origins,
                    created_at, expires_at)
VALUES (:workspace_id, :token_id, :token_hash, :made_by, :agent, :conversation_id, :subject, :rights, :origins,
        :now, :expires_at)

-- name: by_hash
SELECT * FROM tokens WHERE token_hash = :token_hash

-- name: find
SELECT * FROM tokens WHERE workspace_id = :workspace_id AND token_id = :token_id

-- name: page
-- Tokens that are valid by their own row.
SELECT * FROM tokens
WHERE workspace_id = :workspace_id AND token_id > :after AND revoked_at IS NULL AND expires_at > :now
  AND (CAST(:made_by AS text) IS NULL OR made_by = CAST(:made_by AS text))
ORDER BY token_id LIMIT :limit

-- name: nth_valid
-- The expiry of the token of a key after which only :beyond others expire later; nothing if it has fewer.
SELECT expires_at FROM tokens
WHERE workspace_id = :workspace_id AND made_by = :made_by AND expires_at > :now AND revoked_at IS NULL
ORDER BY expires_at DESC LIMIT 1 OFFSET :beyond

-- name: beyond_newest
-- Valid tokens of a maker in a conversation, without the :kept newest.
SELECT token_id FROM tokens
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id AND made_by = :made_by
  AND expires_at > :now AND revoked_at IS NULL
ORDER BY expires_at DESC, created_at DESC, token_id DESC LIMIT :limit OFFSET :kept

-- name: revoke
UPDATE tokens SET revoked_at = :now
WHERE workspace_id = :workspace_id AND token_id = :token_id AND revoked_at IS NULL AND expires_at > :now

-- name: drop_ended_of
-- Ended ones of one key.
DELETE FROM tokens WHERE workspace_id = :workspace_id AND token_id IN (
    SELECT token_id FROM tokens
    WHERE workspace_id = :workspace_id AND made_by = :made_by AND expires_at <= :before
    ORDER BY expires_at LIMIT :limit
)

-- name: drop_ended
DELETE FROM tokens WHERE workspace_id = :workspace_id AND token_id IN (
    SELECT token_id FROM tokens WHERE workspace_id = :workspace_id AND expires_at <= :before
    ORDER BY expires_at LIMIT :limit
)

-- name: of_conversation
SELECT token_id FROM tokens WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id LIMIT :limit

-- name: drop
DELETE FROM tokens WHERE workspace_id = :workspace_id AND token_id = :token_id

-- name: put_origin
INSERT INTO token_origins (workspace_id, origin, expires_at) VALUES (:workspace_id, :origin, :expires_at)
ON CONFLICT (workspace_id, origin) DO UPDATE
SET expires_at = CASE WHEN excluded.expires_at > token_origins.expires_at THEN excluded.expires_at
                      ELSE token_origins.expires_at END

-- name: origins
SELECT count(*) AS origins FROM token_origins WHERE workspace_id = :workspace_id AND expires_at > :now

-- name: knows_origin
SELECT 1 AS found FROM token_origins WHERE origin = :origin AND expires_at > :now LIMIT 1

-- name: drop_origins
DELETE FROM token_origins WHERE workspace_id = :workspace_id AND origin IN (
    SELECT origin FROM token_origins WHERE workspace_id = :workspace_id AND expires_at <= :now LIMIT :limit
)
