-- The journal: everything a run did, in order. run_id is globally unique; callers have looked the run up in its
-- workspace.

-- name: insert
INSERT INTO journal (run_id, last_position, count, last_sequence, attempt, kind, type, data, blob, at, workspace_id)
VALUES (:run_id, :last_position, :count, :last_sequence, :attempt, :kind, :type, :data, :blob, :at, :workspace_id)

-- name: page
-- From the row that contains position :after, or the next one.
SELECT last_position, count, last_sequence, attempt, kind, type, data, blob, at
FROM journal WHERE run_id = :run_id AND last_position >= :after ORDER BY last_position LIMIT :limit

-- name: results
-- The same by sequence, results only.
SELECT last_position, count, last_sequence, attempt, kind, type, data, blob, at
FROM journal WHERE run_id = :run_id AND last_sequence >= :after ORDER BY last_sequence LIMIT :limit

-- name: last_of_run
-- The last position and sequence of a run, whether or not its entries are kept.
SELECT position AS last_position, sequence AS last_sequence FROM runs WHERE run_id = :run_id

-- name: page_backward
-- Newest first, from the row that contains position :before - 1. A row has at most MAX_BATCH_ENTRIES: :bound is where
-- the walk through the index begins.
SELECT last_position, count, last_sequence, attempt, kind, type, data, blob, at
FROM journal WHERE run_id = :run_id AND last_position < :bound AND last_position - count + 1 < :before
ORDER BY last_position DESC LIMIT :limit

-- name: of_type
-- Results of one type, oldest first, for example the messages of a run.
SELECT last_position, count, last_sequence, attempt, kind, type, data, blob, at
FROM journal WHERE run_id = :run_id AND last_position > :after AND kind = 'result' AND type = :type
ORDER BY last_position LIMIT :limit

-- name: calls_and_results
-- Calls, intents and results of attempts from :attempt on, oldest first, with the data of calls only. Without deltas,
-- which change nothing.
SELECT last_position, kind, type, CASE WHEN kind = 'call' THEN data ELSE '' END AS data FROM journal
WHERE run_id = :run_id AND attempt >= :attempt AND last_position > :after AND kind IN ('call', 'intent', 'result')
  AND type <> 'message.delta'
ORDER BY last_position LIMIT :limit

-- name: calls_and_decisions
-- What was asked for and what was decided of it, oldest first. None of these rows holds more than one entry.
SELECT last_position, count, last_sequence, attempt, kind, type, data, blob, at FROM journal
WHERE run_id = :run_id AND last_position > :after AND kind IN ('call', 'refusal', 'intent', 'decision')
ORDER BY last_position LIMIT :limit

-- name: last_lifecycle
-- The last change of a run's status to :type.
SELECT data FROM journal WHERE run_id = :run_id AND kind = 'lifecycle' AND type = :type
ORDER BY last_position DESC LIMIT 1

-- name: first_context
SELECT data FROM journal WHERE run_id = :run_id AND kind = 'context' ORDER BY last_position LIMIT 1

-- name: model_calls
-- The outcomes of an attempt's model calls, oldest first.
SELECT last_position, data FROM journal
WHERE run_id = :run_id AND attempt = :attempt AND last_position > :after AND kind = 'call'
  AND type IN ('model.invoke', 'model.stream')
ORDER BY last_position LIMIT :limit
