"""Attempts: each has its run alone, and none comes without a reason or over the limit of its agent."""

from __future__ import annotations

import json
from collections import Counter

from simulation.life import Life

CALM = frozenset({"message", "cancel", "retry", "fork", "trespass"})
"""Actions after which no run may be lost."""
NEVER = frozenset({"replay.diverged", "host.error", "runner.protocol"})
"""Codes that runs of these hosts and runners do not end with, whatever happens to them."""
LOST = ("the host ended during the run; ", "the plugin process ended during the run; ")
"""Causes of attempts after a crash. That of a host that stopped in order does not count."""
MAX_ATTEMPTS = 3
"""Of an agent that says nothing of it."""


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_order(life), *_counts(life), *_endings(life), *_own_pauses(life)]


def _order(life: Life) -> list[str]:
    """A superseded attempt writes nothing."""
    found, latest = [], ("", 0)
    for run, attempt in life.rows("SELECT run_id, attempt FROM journal ORDER BY run_id, last_position"):
        if run == latest[0] and attempt < latest[1]:
            found.append(f"attempt {attempt} of run {run} wrote to the journal after attempt {latest[1]} did")
        latest = (run, attempt)
    return found


def _counts(life: Life) -> list[str]:
    most = {
        spec["name"]: spec.get("recovery", {}).get("max_attempts", MAX_ATTEMPTS) for spec in life.plan.agents
    }
    agents = dict(life.rows("SELECT run_id, agent_name FROM runs WHERE workspace_id = 'default'"))
    lost: Counter[str] = Counter()
    for run, text in life.rows(
        "SELECT run_id, data FROM journal WHERE kind = 'lifecycle' AND type = 'queued'"
    ):
        entry = json.loads(text)
        in_order = entry["cause"].startswith(LOST[0]) and entry["actor"] != "recovery"
        lost[run] += entry["cause"].startswith(LOST) and not in_order
    found = [
        f"run {run} was lost {count} times and tried again, of at most {most[agents[run]]} attempts"
        for run, count in lost.items()
        if agents.get(run) in most and count >= most[agents[run]]
    ]
    if all(action.what in CALM for action in life.plan.actions):
        found += [f"run {run} was lost although nothing went wrong" for run, count in lost.items() if count]
    return found


def _endings(life: Life) -> list[str]:
    rows = life.rows("SELECT run_id, status_code, runner_id FROM runs WHERE status = 'failed'")
    return [
        f"run {run} failed with {code}, which its runner gave no reason for"
        for run, code, runner in rows
        if code in NEVER and "rogue" not in runner
    ]


def _own_pauses(life: Life) -> list[str]:
    """A run that its runner paused is not lost by a crash before it went on: nothing would be done twice."""
    paused = life.rows(
        "SELECT r.run_id, r.status_code, max(j.last_position)"
        " FROM runs r JOIN journal j ON j.run_id = r.run_id"
        " WHERE r.status = 'failed' AND r.status_code IN ('runner.crashed', 'host.restarted')"
        "   AND 'explicit' = (SELECT form FROM pauses WHERE run_id = r.run_id ORDER BY segment DESC LIMIT 1)"
        "   AND j.kind = 'lifecycle' AND j.type = 'paused' GROUP BY r.run_id, r.status_code"
    )
    return [
        f"run {run} failed with {code}, and had done nothing since its runner paused it"
        for run, code, position in paused
        if not life.rows(
            f"SELECT 1 FROM journal WHERE run_id = '{run}' AND last_position > {position}"
            " AND (kind IN ('intent', 'call') OR kind = 'result' AND type <> 'message.delta'"
            "      AND type NOT IN ('attempt.started', 'run.failed'))"
        )
    ]
