-- Accounts of people on channels, bound to subjects.

-- name: find
SELECT * FROM people WHERE workspace_id = :workspace_id AND channel = :channel AND person_id = :person_id

-- name: bind
INSERT INTO people (workspace_id, channel, person_id, channel_of, name, subject, subject_channel_of,
                    conversation_id, how, bound_by, bound_at)
VALUES (:workspace_id, :channel, :person_id, :channel_of, :name, :subject, CAST(:subject_channel_of AS text),
        :conversation_id, :how, :bound_by, :now)
ON CONFLICT (workspace_id, channel, person_id) DO UPDATE
SET channel_of = excluded.channel_of, name = COALESCE(excluded.name, people.name), subject = excluded.subject,
    subject_channel_of = excluded.subject_channel_of,
    conversation_id = COALESCE(excluded.conversation_id, people.conversation_id), how = excluded.how,
    bound_by = excluded.bound_by, bound_at = excluded.bound_at

-- name: unbind
DELETE FROM people WHERE workspace_id = :workspace_id AND channel = :channel AND person_id = :person_id

-- name: count_of_subject
SELECT COUNT(*) AS number FROM (
    SELECT 1 AS one FROM people WHERE workspace_id = :workspace_id AND subject = :subject
      AND NOT (channel = :channel AND person_id = :person_id) LIMIT :limit) AS counted

-- name: page
SELECT * FROM people
WHERE workspace_id = :workspace_id AND (CAST(:channel AS text) IS NULL OR channel = :channel)
  AND (CAST(:subject AS text) IS NULL OR subject = :subject)
  AND (channel > :after_channel OR (channel = :after_channel AND person_id > :after_person))
ORDER BY channel, person_id LIMIT :limit

-- name: of_person
SELECT * FROM people WHERE workspace_id = :workspace_id AND person_id = :person_id LIMIT :limit

-- name: of_channel
SELECT * FROM people WHERE workspace_id = :workspace_id AND channel = :channel LIMIT :limit

-- name: channels
SELECT DISTINCT channel FROM people WHERE workspace_id = :workspace_id LIMIT :limit
