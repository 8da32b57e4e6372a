-- Approvals and questions that chats show, and who answered them there.

-- name: insert
INSERT INTO chat_questions (workspace_id, question_id, pause_id, call_id, asked, about, channel, chat_id, thread_id,
                            delivery_id, first_number, choices, created_at)
VALUES (:workspace_id, :question_id, :pause_id, :call_id, :asked, :about, :channel, :chat_id, :thread_id, :delivery_id,
        :first_number, :choices, :now)
ON CONFLICT (workspace_id, question_id) DO NOTHING

-- name: of_pause
SELECT * FROM chat_questions
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND closed_at IS NULL
ORDER BY created_at, question_id LIMIT :limit

-- name: find
SELECT * FROM chat_questions WHERE workspace_id = :workspace_id AND question_id = :question_id

-- name: open_in_chat
SELECT * FROM chat_questions
WHERE workspace_id = :workspace_id AND channel = :channel AND chat_id = :chat_id AND closed_at IS NULL
ORDER BY created_at, question_id LIMIT :limit

-- name: close
UPDATE chat_questions SET closed_at = :now
WHERE workspace_id = :workspace_id AND question_id = :question_id AND closed_at IS NULL

-- name: note_answer
INSERT INTO chat_answers (workspace_id, event_id, question_id, pause_id, subject, person_id, actor_name, refused,
                          created_at)
VALUES (:workspace_id, :event_id, :question_id, :pause_id, :subject, :person_id, :actor_name, :refused, :now)
ON CONFLICT (workspace_id, event_id) DO NOTHING

-- name: answer_of_event
SELECT refused FROM chat_answers WHERE workspace_id = :workspace_id AND event_id = :event_id

-- name: count_answers
SELECT count(*) AS number, coalesce(sum(CASE WHEN person_id = :person_id THEN 1 ELSE 0 END), 0) AS own
FROM (SELECT person_id FROM chat_answers WHERE workspace_id = :workspace_id AND question_id = :question_id
      AND refused = 1 LIMIT :limit) AS noted

-- name: name_of
SELECT actor_name FROM chat_answers
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND subject = :subject AND refused = 0
ORDER BY created_at DESC, event_id DESC LIMIT 1

-- name: forget_person
DELETE FROM chat_answers WHERE workspace_id = :workspace_id AND person_id = :person_id
