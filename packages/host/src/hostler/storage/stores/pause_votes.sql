-- Votes on calls of pauses, and the requests that contained them.

-- name: insert
INSERT INTO decision_votes (workspace_id, pause_id, call_id, revision, args_hash, subject, key_id, vote, comment, created_at)
VALUES (:workspace_id, :pause_id, :call_id, :revision, :args_hash, :subject, :key_id, :vote, :comment, :now)

-- name: of_pause
SELECT call_id, revision, args_hash, subject, key_id, vote, comment, created_at FROM decision_votes
WHERE workspace_id = :workspace_id AND pause_id = :pause_id ORDER BY created_at, call_id, subject

-- name: request
SELECT body_digest, answer FROM action_requests
WHERE workspace_id = :workspace_id AND pause_id = :pause_id AND key_id = :key_id AND request_key = :request_key

-- name: keep_request
INSERT INTO action_requests (workspace_id, pause_id, key_id, request_key, body_digest, answer, created_at)
VALUES (:workspace_id, :pause_id, :key_id, :request_key, :body_digest, :answer, :now)
