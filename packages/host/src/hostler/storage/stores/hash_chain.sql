-- The hash chains of a workspace: events and audit.

-- name: advance
-- Reserves the next :rows sequences of a chain; returns the last of them and the digest before them. Locks the head row.
INSERT INTO heads (workspace_id, chain, seq, digest) VALUES (:workspace_id, :chain, :rows, '')
ON CONFLICT (workspace_id, chain) DO UPDATE SET seq = heads.seq + :rows
RETURNING seq, digest

-- name: set_digest
UPDATE heads SET digest = :digest WHERE workspace_id = :workspace_id AND chain = :chain

-- name: link_events
UPDATE events SET seq = :seq, digest = :digest WHERE workspace_id = :workspace_id AND event_id = :row_id

-- name: link_audit
UPDATE audit SET seq = :seq, digest = :digest WHERE workspace_id = :workspace_id AND audit_id = :row_id

-- name: head
SELECT seq, digest FROM heads WHERE workspace_id = :workspace_id AND chain = :chain

-- name: heads
-- The ends of the hash chains of all workspaces.
SELECT workspace_id, chain, seq, digest FROM heads
WHERE chain IN ('events', 'audit') AND (workspace_id, chain) > (:after_workspace, :after_chain)
ORDER BY workspace_id, chain LIMIT :limit

-- name: next_workspace
-- The next workspace that has any rows: one index look-up per table.
SELECT min(workspace_id) AS workspace_id FROM (
    SELECT min(workspace_id) AS workspace_id FROM heads WHERE workspace_id > :after
    UNION ALL SELECT min(workspace_id) FROM events WHERE workspace_id > :after
    UNION ALL SELECT min(workspace_id) FROM audit WHERE workspace_id > :after
    UNION ALL SELECT min(workspace_id) FROM runs WHERE workspace_id > :after
    UNION ALL SELECT min(workspace_id) FROM transcripts WHERE workspace_id > :after
) AS found

-- name: event_digest
SELECT digest FROM events WHERE workspace_id = :workspace_id AND seq = :seq

-- name: audit_digest
SELECT digest FROM audit WHERE workspace_id = :workspace_id AND seq = :seq

-- name: events_after
SELECT seq, body_digest, digest, event_id, request_digest, event_type, source, bot_id, conversation_id, thread_id,
       actor_type, actor_id, actor_name, subject_type, subject_id, input_summary, body, content_redacted, requester,
       event_time, created_at
FROM events WHERE workspace_id = :workspace_id AND seq > :after ORDER BY seq LIMIT :limit

-- name: events_outside
-- Rows without a valid sequence, which no walk along the chain finds; two index look-ups.
SELECT event_id AS id FROM events WHERE workspace_id = :workspace_id AND seq IS NULL
UNION ALL
SELECT event_id AS id FROM events WHERE workspace_id = :workspace_id AND seq < 1
LIMIT 1

-- name: audit_after
SELECT seq, body_digest, digest, audit_id, actor, action, target, body, created_at
FROM audit WHERE workspace_id = :workspace_id AND seq > :after ORDER BY seq LIMIT :limit

-- name: audit_outside
-- Rows without a valid sequence, which no walk along the chain finds; two index look-ups.
SELECT audit_id AS id FROM audit WHERE workspace_id = :workspace_id AND seq IS NULL
UNION ALL
SELECT audit_id AS id FROM audit WHERE workspace_id = :workspace_id AND seq < 1
LIMIT 1
