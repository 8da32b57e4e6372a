"""Wake-ups: until something goes wrong, whatever can go on goes on at once, not at somebody's next look.

A wake-up that is lost harms nobody for long, since everybody looks from time to time (docs/decisions,
the-queue-is-the-database). That net must not hide that the wake-up is gone.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hostler.simulation.entropy import EPOCH
from simulation.judges.attempts import CALM
from simulation.life import Life

PROMPT_SECONDS = 3.0
"""Shorter than the intervals of the looks of a host that is alone on its database (5 and 30 s), far longer
than what a commit and a few messages take."""
HELD_SECONDS = 2.0
"""The same for a decision: shorter than the time for which calls are held, when an attempt looks as well."""

SLOTS = frozenset({"max_active_runs", "max_runs_per_workspace", "max_runs_per_plugin"})
"""Settings by which runs wait for others that are not of their lane."""


def judge(life: Life) -> list[str]:
    """Look at the time before the first fault or operator, on a database of one host.

    Facts bear the time of its clock. Where that is set back, some of later seem to be of before.
    """
    if len(life.hosts) > 1 or any(one.what == "clock" and one.data["by"] < 0 for one in life.plan.actions):
        return []
    disturbed = [action.at for action in life.plan.actions if action.what not in CALM]
    until = min(disturbed, default=life.world.loop.time())
    waits = [] if SLOTS & life.plan.settings.keys() else [*_claims(life, until), *_decided(life, until)]
    return [*_seen(life, until), *waits]


def _claims(life: Life, until: float) -> list[str]:
    """A run is claimed as soon as its lane is free and its time has come."""
    limited = {spec["name"] for spec in life.plan.agents if spec.get("concurrency", {}).get("max_runs")}
    runs = {
        run: (lane, parallel, not_before)
        for run, lane, parallel, not_before, agent in life.rows(
            "SELECT run_id, lane, parallel, not_before, agent_name FROM runs"
        )
        if agent not in limited
    }
    waits: list[tuple[str, float, float]] = []
    held: dict[str, list[tuple[float, str]]] = defaultdict(list)
    since: dict[str, float] = {}
    for run, status, at in _entries(life, "lifecycle"):
        lane = runs[run][0] if run in runs else ""
        if status == "queued":
            since[run] = at
        elif status == "claimed" and run in since:
            waits.append((run, since.pop(run), at))
        if status not in ("claimed", "running"):
            held[lane].append((at, run))
    found = []
    for run, queued, claimed in waits:
        if run not in runs or claimed > until:
            continue
        lane, parallel, not_before = runs[run]
        freed = [at for at, other in held[lane] if at <= claimed and other != run and not parallel]
        ready = max([queued, (not_before or 0) / 1000 - EPOCH, *freed])
        if claimed - ready > PROMPT_SECONDS:
            found.append(f"run {run} could start, and was claimed only {claimed - ready:.1f} s later")
    return found


def _seen(life: Life, until: float) -> list[str]:
    """A result reaches those who read along as soon as it is committed."""
    stored = {
        (run, sequence): at / 1000 - EPOCH
        for run, sequence, at in life.rows(
            "SELECT run_id, last_sequence, at FROM journal WHERE kind = 'result'"
        )
    }
    before: dict[str, float] = {}
    found = []
    for at, kind, data in life.outside.notes:
        if kind == "accepted":
            before[data["event"]] = at
        if kind != "seen" or at > until or (committed := stored.get((data["run"], data["sequence"]))) is None:
            continue
        late = at - max(committed, before.get(data["reader"], at))
        before[data["reader"]] = at
        if late > PROMPT_SECONDS:
            found.append(f"result {data['sequence']} of run {data['run']} was seen only {late:.1f} s later")
    return found


def _decided(life: Life, until: float) -> list[str]:
    """A run whose last decision has come goes on."""
    entries: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for run, kind, at in _entries(life, "decision"):
        entries[run].append((at, kind))
    found = []
    for run, steps in entries.items():
        for (at, kind), (following, _) in pairwise(steps):
            if kind == "pause.ready" and at < following < until and following - at > HELD_SECONDS:
                found.append(f"run {run} was decided about, and went on only {following - at:.1f} s later")
    return found


def _entries(life: Life, kind: str) -> list[tuple[str, str, float]]:
    query = f"SELECT run_id, type, at FROM journal WHERE kind = '{kind}' ORDER BY at, run_id, last_position"
    return [(run, type_, at / 1000 - EPOCH) for run, type_, at in life.rows(query)]
