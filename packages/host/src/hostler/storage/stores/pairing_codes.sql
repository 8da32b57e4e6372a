-- Codes by which people of channels are paired.

-- name: insert
INSERT INTO pairing_codes (workspace_id, digest, kind, status, channel, person_id, channel_of, name, chat_id,
                           conversation_id, subject, made_by, made_at, expires_at)
VALUES (:workspace_id, :digest, :kind, 'waiting', :channel, :person_id, :channel_of, :name, :chat_id, :conversation_id,
        :subject, :made_by, :now, :expires_at)

-- name: drop_expired
DELETE FROM pairing_codes WHERE workspace_id = :workspace_id AND expires_at <= :now

-- name: drop
DELETE FROM pairing_codes WHERE workspace_id = :workspace_id AND digest = :digest

-- name: drop_of_subject
DELETE FROM pairing_codes WHERE workspace_id = :workspace_id AND subject = :subject AND kind = 'offered'

-- name: drop_of_account
DELETE FROM pairing_codes
WHERE workspace_id = :workspace_id AND channel = :channel AND person_id = :person_id AND kind = 'asked'

-- name: drop_of_channel
DELETE FROM pairing_codes WHERE workspace_id = :workspace_id AND channel = :channel AND kind = 'asked'

-- name: of_account
SELECT * FROM pairing_codes
WHERE workspace_id = :workspace_id AND channel = :channel AND person_id = :person_id AND kind = 'asked'

-- name: of_person
SELECT * FROM pairing_codes WHERE workspace_id = :workspace_id AND person_id = :person_id AND kind = 'asked' LIMIT :limit

-- name: find
SELECT * FROM pairing_codes
WHERE workspace_id = :workspace_id AND digest = :digest AND kind = :kind AND status = 'waiting' AND expires_at > :now

-- name: count
SELECT COUNT(*) AS number FROM pairing_codes
WHERE workspace_id = :workspace_id AND kind = :kind AND status = 'waiting' AND expires_at > :now

-- name: reject
UPDATE pairing_codes SET status = 'rejected', expires_at = :expires_at
WHERE workspace_id = :workspace_id AND digest = :digest

-- name: page
SELECT * FROM pairing_codes
WHERE workspace_id = :workspace_id AND kind = 'asked' AND expires_at > :now
  AND (made_at < :before_at OR (made_at = :before_at AND digest < :before_digest))
ORDER BY made_at DESC, digest DESC LIMIT :limit

-- name: channels
SELECT DISTINCT channel FROM pairing_codes WHERE workspace_id = :workspace_id AND kind = 'asked' LIMIT :limit
