-- The timeline of a workspace: pieces of journals, events and deletions, in the order of their commits.

-- name: advance
-- Reserves the next :items sequences; returns the last of them. Locks the head row until the commit.
INSERT INTO heads (workspace_id, chain, seq, digest) VALUES (:ws, 'timeline', :items, '')
ON CONFLICT (workspace_id, chain) DO UPDATE SET seq = heads.seq + :items
RETURNING seq

-- name: insert
INSERT INTO timeline (workspace_id, last_seq, count, kind, run_id, last_position, event_id, conversation_id, agent_name,
                      bot_id, created_at)
VALUES (:ws, :last_seq, :count, :kind, :run_id, :last_position, :event_id, :conversation_id, :agent_name, :bot_id,
        :created_at)

-- name: head
SELECT seq FROM heads WHERE workspace_id = :ws AND chain = 'timeline'

-- name: skip
-- Of all workspaces.
UPDATE heads SET seq = seq + :items WHERE chain = 'timeline'

-- name: floor
-- The last sequence that retention removed.
SELECT swept_until FROM sweeps WHERE workspace_id = :ws AND kind = 'timeline'

-- name: after
SELECT last_seq, count, kind, run_id, last_position, event_id, conversation_id, agent_name, bot_id, created_at
FROM timeline WHERE workspace_id = :ws AND last_seq > :after ORDER BY last_seq LIMIT :limit

-- name: after_in_conversation
-- The same of one conversation, or of what stands for one that was deleted.
SELECT last_seq, count, kind, run_id, last_position, event_id, conversation_id, agent_name, bot_id, created_at
FROM timeline WHERE workspace_id = :ws AND conversation_id = :conversation_id AND last_seq > :after
ORDER BY last_seq LIMIT :limit

-- name: journal_rows
-- The rows of the journals that some rows of the timeline stand for, after a sequence. A row of a journal is never
-- divided between two rows of the timeline.
SELECT t.last_seq - t.last_position + j.last_position AS seq, j.count, j.last_sequence, j.attempt, j.kind, j.type,
       j.data, j.at, t.last_seq, r.event_id, r.thread_id, r.parent_run_id
FROM timeline t
JOIN journal j ON j.run_id = t.run_id AND j.last_position > t.last_position - t.count
    AND j.last_position <= t.last_position
JOIN runs r ON r.run_id = t.run_id
WHERE t.workspace_id = :ws AND t.last_seq IN [numbers :seqs] AND t.kind = 'journal'
  AND t.last_seq - t.last_position + j.last_position > :after
  AND j.kind IN ('result', 'lifecycle', 'steering', 'decision')
  AND (:deltas = 1 OR j.type <> 'message.delta')
ORDER BY t.last_seq, j.last_position LIMIT :limit

-- name: events
SELECT event_id, event_type, source, bot_id, conversation_id, thread_id, requester, content_redacted, body, created_at
FROM events WHERE workspace_id = :ws AND event_id IN [texts :event_ids]

-- name: oldest
SELECT last_seq, created_at FROM timeline WHERE workspace_id = :ws ORDER BY last_seq LIMIT :limit

-- name: remove_until
DELETE FROM timeline WHERE workspace_id = :ws AND last_seq <= :until

-- name: set_floor
INSERT INTO sweeps (workspace_id, kind, swept_until) VALUES (:ws, 'timeline', :until)
ON CONFLICT (workspace_id, kind) DO UPDATE SET swept_until = excluded.swept_until

-- name: forgotten
-- Rows of a conversation, and whether the run or event that each stands for was emptied.
SELECT t.last_seq, CASE WHEN t.kind = 'journal'
           THEN NOT EXISTS (SELECT 1 FROM runs r WHERE r.run_id = t.run_id AND r.conversation_id = t.conversation_id)
           ELSE NOT EXISTS (SELECT 1 FROM events e WHERE e.workspace_id = t.workspace_id AND e.event_id = t.event_id
                            AND e.conversation_id = t.conversation_id) END AS is_gone
FROM timeline t
WHERE t.workspace_id = :ws AND t.conversation_id = :conversation_id AND t.last_seq > :after
ORDER BY t.last_seq LIMIT :limit

-- name: remove
DELETE FROM timeline WHERE workspace_id = :ws AND last_seq = :last_seq
