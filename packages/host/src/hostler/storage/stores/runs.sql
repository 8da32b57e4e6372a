-- Runs. run_id is globally unique and a worker uses it alone for runs that it has claimed; requests from outside are
-- looked up with their workspace too.

-- name: lane_taken
-- Whether a new run of this lane must wait: the lane is held, or other runs wait in it. A run that backs off after a
-- first attempt counts; a run whose start is delayed does not, until it is due.
SELECT 1 AS taken FROM runs WHERE active_lane = :lane
UNION ALL
SELECT 1 AS taken FROM runs WHERE lane = :lane AND status = 'queued' AND parallel = 0
  AND (not_before IS NULL OR not_before <= :now OR attempt > 1)
LIMIT 1

-- name: insert
-- No row: another host took the lane meanwhile.
INSERT INTO runs (workspace_id, run_id, agent_id, agent_name, agent_version, runner_id, event_id, parent_run_id,
    bot_id, conversation_id, thread_id, requester, lane, active_lane, parallel, priority, not_before, ordinal, status, attempt,
    crashes, position, sequence, kept_sequence, host_id, host_epoch, binding, created_at, deadline_at,
    follows, gathering, gather_until, gathered, gathered_bytes)
VALUES (:workspace_id, :run_id, :agent_id, :agent_name, :agent_version, :runner_id, :event_id, :parent_run_id,
    :bot_id, :conversation_id, :thread_id, :requester, :lane, :active_lane, :parallel, :priority, :not_before,
    :ordinal, :status, 1, 0, 1, 0, 0, :host_id, :host_epoch, :binding, :created_at, :deadline_at,
    :follows, :gathering, :gather_until, :gathered, :gathered_bytes)
ON CONFLICT (active_lane) WHERE active_lane IS NOT NULL DO NOTHING

-- name: append
-- The hot path: reserves positions and sequences under the fencing token.
UPDATE runs SET position = position + :entries, sequence = sequence + :results,
    kept_sequence = CASE WHEN :kept > 0 THEN sequence + :kept ELSE kept_sequence END
WHERE run_id = :run_id AND attempt = :attempt AND status IN ('claimed', 'running')
RETURNING workspace_id, position, sequence, agent_name, conversation_id, bot_id

-- name: status
SELECT workspace_id, status, attempt FROM runs WHERE run_id = :run_id

-- name: move
-- A change of status, with its journal entries. :status_before and :attempt were read before, or are the usual ones: no
-- row means that they do not match. A stored grant is not replaced. A run that has begun goes on before all others of its
-- lane, also before older ones whose start was delayed at that time. `webhook` is 1 if the entry of one names this
-- end, and `sends` is 1 if the outbox has something of a run that ends, else they are NULL: asked here, since queries of
-- their own would be more for every run. SQLite would plan the statement anew for each pattern that is a parameter.
UPDATE runs SET status = :status, status_code = :status_code,
    attempt = attempt + :new_attempt, crashes = crashes + :crashed,
    ordinal = CASE WHEN :new_attempt = 1 AND parallel = 0 THEN coalesce(
                  (SELECT min(o.ordinal) - 1 FROM runs o WHERE o.lane = runs.lane AND o.status = 'queued'
                   AND o.parallel = 0 AND o.ordinal < runs.ordinal), ordinal) ELSE ordinal END,
    base_attempt = CASE WHEN :restart = 1 THEN attempt + :new_attempt ELSE base_attempt END,
    position = position + :entries, sequence = sequence + :results,
    kept_sequence = CASE WHEN :kept > 0 THEN sequence + :kept ELSE kept_sequence END,
    active_lane = CASE WHEN :holds_lane = 1 AND parallel = 0 THEN lane END,
    host_id = CASE WHEN :status IN ('queued', 'paused') THEN NULL
                   ELSE coalesce(cast(:host_id AS text), host_id) END,
    not_before = coalesce(cast(:not_before AS bigint), not_before),
    started_at = CASE WHEN :begins = 1 THEN coalesce(started_at, :now) ELSE started_at END,
    finished_at = CASE WHEN :terminal = 1 THEN cast(:now AS bigint) END,
    deadline_at = coalesce(cast(:deadline_at AS bigint), deadline_at),
    usage = coalesce(cast(:usage AS text), usage), cost = coalesce(cast(:cost AS text), cost),
    grant_json = coalesce(grant_json, cast(:grant_json AS text))
WHERE run_id = :run_id AND status = :status_before AND attempt = :attempt
RETURNING workspace_id, position, sequence, attempt, steers, agent_name, conversation_id, bot_id,
    (SELECT 1 FROM settings WHERE :terminal = 1 AND settings.workspace_id = runs.workspace_id
     AND settings.kind = 'webhook' AND settings.spec LIKE '%"run.' || runs.status || '"%' LIMIT 1) AS webhook,
    (SELECT 1 FROM outbox WHERE :terminal = 1 AND outbox.workspace_id = runs.workspace_id
     AND outbox.run_id = runs.run_id LIMIT 1) AS sends

-- name: rebase
-- The next attempt starts without a recording: the runner saved its own state.
UPDATE runs SET base_attempt = attempt + 1 WHERE run_id = :run_id

-- name: request_cancel
-- Keeps actor and reason of the first request, and the shortest grace.
UPDATE runs SET cancel_reason = coalesce(cancel_reason, :reason),
    cancel_requested_at = coalesce(cancel_requested_at, cast(:now AS bigint)),
    cancel_requested_by = coalesce(cancel_requested_by, :by),
    cancel_grace = CASE WHEN cancel_grace IS NULL OR cast(:grace AS bigint) < cancel_grace
                        THEN cast(:grace AS bigint) ELSE cancel_grace END
WHERE workspace_id = :workspace_id AND run_id = :run_id
  AND status IN ('queued', 'claimed', 'running', 'paused')
RETURNING *

-- name: usage
UPDATE runs SET usage = :usage, cost = coalesce(cast(:cost AS text), cost)
WHERE run_id = :run_id AND attempt = :attempt AND status IN ('claimed', 'running')

-- name: find
SELECT * FROM runs WHERE workspace_id = :workspace_id AND run_id = :run_id

-- name: by_id
SELECT * FROM runs WHERE run_id = :run_id

-- name: page
-- Newest first. :statuses is a list like ',queued,running,'; no status holds a wildcard.
SELECT * FROM runs
WHERE workspace_id = :workspace_id
  AND (created_at, run_id) < (:before_time, :before_id)
  AND created_at >= :since
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
ORDER BY created_at DESC, run_id DESC LIMIT :limit

-- name: page_conversation
SELECT * FROM runs
WHERE workspace_id = :workspace_id AND conversation_id = :conversation_id
  AND (created_at, run_id) < (:before_time, :before_id)
  AND created_at >= :since
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
  AND (cast(:agent_name AS text) IS NULL OR agent_name = :agent_name)
ORDER BY created_at DESC, run_id DESC LIMIT :limit

-- name: of_agent
-- Newest first; :changed_after: when its status was reached, as far as the row has it.
SELECT * FROM runs
WHERE workspace_id = :workspace_id AND agent_name = :agent_name
  AND (created_at, run_id) < (:before_time, :before_id)
  AND coalesce(finished_at, started_at, created_at) >= :changed_after
  AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
  AND (cast(:conversation_id AS text) IS NULL OR conversation_id = :conversation_id)
ORDER BY created_at DESC, run_id DESC LIMIT :limit

-- name: count_of_agent
SELECT count(*) AS number FROM (
    SELECT 1 FROM runs
    WHERE workspace_id = :workspace_id AND agent_name = :agent_name
      AND coalesce(finished_at, started_at, created_at) >= :changed_after
      AND (cast(:statuses AS text) IS NULL OR :statuses LIKE '%,' || status || ',%')
      AND (cast(:conversation_id AS text) IS NULL OR conversation_id = :conversation_id)
    LIMIT :limit) AS counted
