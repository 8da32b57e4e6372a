-- Answers that grow by edits: one row of the outbox for each message of an answer, until it is complete.

-- name: of_run
SELECT o.* FROM runs AS r
JOIN outbox AS o ON o.workspace_id = r.workspace_id AND o.run_id = r.run_id
WHERE r.run_id = :run_id AND o.run_id = :run_id AND o.growing = 1
ORDER BY o.position, o.delivery_id LIMIT :limit

-- name: update
-- The newest text: where the platform has an earlier one, it is edited.
UPDATE outbox SET body = :body, version = version + 1, resent_at = :now,
    due_at = CASE WHEN status = 'sent' THEN cast(:now AS bigint) ELSE due_at END
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND growing = 1

-- name: finish
-- The final text. What the platform has already needs no edit; of what may have come in part the whole is sent.
UPDATE outbox
SET body = :body, version = version + 1, resent_at = :now, result_sequence = cast(:result_sequence AS bigint),
    growing = CASE WHEN status = 'failed' OR (:same = 1 AND status = 'sent' AND shown = version) THEN 0 ELSE 2 END,
    due_at = CASE WHEN status = 'failed' OR (:same = 1 AND status = 'sent' AND shown = version) THEN NULL
                  WHEN due_at IS NULL THEN cast(:now AS bigint) ELSE due_at END
WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id AND growing = 1
