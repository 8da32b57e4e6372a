-- Calls of models.

-- name: add
INSERT INTO model_calls (workspace_id, at, call_id, run_id, agent_name, model_id, outcome, milliseconds, input_tokens,
    output_tokens, total_tokens, cached_tokens, cost)
SELECT workspace_id, :at, :call_id, run_id, agent_name, :model_id, :outcome, :milliseconds, :input_tokens,
    :output_tokens, :total_tokens, :cached_tokens, :cost
FROM runs WHERE run_id = :run_id
