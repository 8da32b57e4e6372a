"""Calls in doubt: nobody knows whether they were made. They wait without a process, and never expire."""

from __future__ import annotations

import json
import math
from itertools import groupby

from hostler.simulation.entropy import EPOCH
from simulation.judges.attempts import CALM
from simulation.life import Life

PROMPT_SECONDS = 1.5
"""In which a run that waits is without its process. Shorter than the time for which other calls are held."""
ARMED_SECONDS = 1.0
"""How long after it is noted a fault may come about: at one of the next commits of a host, say."""
HARD = frozenset({"clock", "disk slow", "disk full"})
"""Faults in whose lives the times of facts say little."""


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_shown(life), *_parked(life)]


def _shown(life: Life) -> list[str]:
    rows = life.rows("SELECT run_id, data FROM journal WHERE type = 'interaction.requested' AND count = 1")
    asked = [(run, json.loads(text)["data"]) for run, text in rows]
    return [
        f"run {run} asks about call {data['call_id']}, which is in doubt, and says that it expires"
        for run, data in asked
        if data["kind"] == "in_doubt" and (data.get("expires_in") or data.get("expires_at"))
    ]


def _parked(life: Life) -> list[str]:
    """A run that can be resumed leaves its process at once, since holding it makes nothing quicker."""
    if any(action.what in HARD for action in life.plan.actions):
        return []
    faults = [
        at
        for at, kind, data in life.outside.notes
        if kind in ("fault", "happened") or (kind == "action" and data["what"] not in CALM)
    ]
    rows = life.rows(
        "SELECT j.run_id, j.kind, j.type, j.at FROM journal j JOIN runs r ON r.run_id = j.run_id"
        " WHERE j.kind IN ('lifecycle', 'decision', 'call') AND r.runner_id LIKE '%/resumable'"
        "   AND j.type NOT LIKE 'pause.call.%'"
        " ORDER BY j.run_id, j.last_position"
    )
    found = []
    for run, group in groupby(rows, lambda row: row[0]):
        status, since = "", math.inf
        for _, kind, what, ms in group:
            at = ms / 1000 - EPOCH
            kept = status == "running" and at - since > PROMPT_SECONDS and kind != "call"
            if kept and not any(since - ARMED_SECONDS < fault < since + PROMPT_SECONDS for fault in faults):
                found.append(f"run {run} has a call in doubt, and keeps its process")
            if kind == "lifecycle":
                status = what
            # the calls that it made at the same time end before it is parked
            waits = what == "pause.needs_review" or (kind == "call" and since < math.inf)
            since = at if waits else math.inf
    return found
