-- Approvals and questions that a chat shows. asked: identity of what is asked of the call; question_id: of that in this
-- chat. delivery_id: the message in the outbox that has its choices. first_number: the number of its first choice where
-- it is answered by numbers, else 0; choices: how many it has. closed_at: when its outcome was put into the outbox.
CREATE TABLE chat_questions (
    workspace_id [key] NOT NULL,
    question_id  [key] NOT NULL,
    pause_id     [key] NOT NULL,
    call_id      [key] NOT NULL,
    asked        [key] NOT NULL,
    about        text NOT NULL,   -- decision | doubt
    channel      [key] NOT NULL,
    chat_id      [key] NOT NULL,
    thread_id    [key],
    delivery_id  [key] NOT NULL,
    first_number bigint NOT NULL,
    choices      bigint NOT NULL,
    created_at   bigint NOT NULL,
    closed_at    bigint,
    PRIMARY KEY (workspace_id, question_id)
);
CREATE INDEX chat_questions_by_pause ON chat_questions (workspace_id, pause_id);
CREATE INDEX chat_questions_open ON chat_questions (workspace_id, channel, chat_id) WHERE closed_at IS NULL;

-- Who answered a question in a chat, or tried to: one row for each decision, and the first refusal of each person.
CREATE TABLE chat_answers (
    workspace_id [key] NOT NULL,
    event_id     [key] NOT NULL,
    question_id  [key] NOT NULL,
    pause_id     [key] NOT NULL,
    subject      [key] NOT NULL,
    person_id    [key] NOT NULL,
    actor_name   text,
    refused      bigint NOT NULL,
    created_at   bigint NOT NULL,
    PRIMARY KEY (workspace_id, event_id)
);
CREATE INDEX chat_answers_by_question ON chat_answers (workspace_id, question_id, person_id);
CREATE INDEX chat_answers_by_pause ON chat_answers (workspace_id, pause_id);
CREATE INDEX chat_answers_by_person ON chat_answers (workspace_id, person_id);
