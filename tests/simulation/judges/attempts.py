"""Attempts: each has its run alone, and none comes without a reason or over the limit of its agent."""

from __future__ import annotations

import json
import math
from collections import Counter

from hostler.simulation.entropy import EPOCH
from simulation.life import Life

CALM = frozenset({"message", "cancel", "retry", "fork", "trespass", "ill", "replay"}) | {
    "send again",
    "send another",
    "read late",
}
"""Actions that disturb no host: after them no run may be lost, and none waits longer."""
NEVER = frozenset({"replay.diverged", "host.error", "runner.protocol"})
"""Codes that runs of these hosts and runners do not end with, whatever happens to them."""
LOST = ("the host ended during the run; ", "the plugin process ended during the run; ")
"""Causes of attempts after a crash. That of a host that stopped in order does not count."""
MAX_ATTEMPTS = 3
"""Of an agent that says nothing of it."""


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_counts(life), *_endings(life), *_own_pauses(life), *_children(life)]


def _counts(life: Life) -> list[str]:
    most = {
        spec["name"]: spec.get("recovery", {}).get("max_attempts", MAX_ATTEMPTS) for spec in life.plan.agents
    }
    agents = dict(life.rows("SELECT run_id, agent_name FROM runs WHERE workspace_id = 'default'"))
    lost: Counter[str] = Counter()
    found = []
    harmless = _until_something_happens(life)
    for run, text, at in life.rows(
        "SELECT run_id, data, at FROM journal WHERE kind = 'lifecycle' AND type = 'queued'"
    ):
        entry = json.loads(text)
        in_order = entry["cause"].startswith(LOST[0]) and entry["actor"] != "recovery"
        is_lost = entry["cause"].startswith(LOST) and not in_order
        lost[run] += is_lost
        if is_lost and (at + 1) / 1000 - EPOCH < harmless:  # times of facts are cut to milliseconds
            found.append(f"run {run} was lost although nothing had gone wrong")
    found += [
        f"run {run} was lost {count} times and tried again, of at most {most[agents[run]]} attempts"
        for run, count in lost.items()
        if agents.get(run) in most and count >= most[agents[run]]
    ]
    return found


def _until_something_happens(life: Life) -> float:
    """Return until when nothing happened that may end an attempt; where a clock is set nobody knows."""
    if any(action.what == "clock" for action in life.plan.actions):
        return -math.inf
    notes = life.outside.notes
    acts = [at for at, kind, data in notes if kind == "action" and data["what"] not in CALM]
    return min([*acts, *(at for at, kind, _ in notes if kind == "fault")], default=math.inf)


def _children(life: Life) -> list[str]:
    """Who cancels a run cancels what it began and has not ended yet."""
    if any(action.what == "clock" for action in life.plan.actions):
        return []  # nobody knows what was first
    rows = life.rows(
        "SELECT c.run_id, p.run_id FROM runs p JOIN runs c ON c.parent_run_id = p.run_id"
        " WHERE p.cancel_requested_at IS NOT NULL AND c.cancel_requested_at IS NULL"
        "   AND c.created_at < p.cancel_requested_at AND c.finished_at > p.cancel_requested_at"
    )
    return [f"run {parent} was cancelled, and its child {child} went on" for child, parent in rows]


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
