"""Runs whose plugin process is gone: given up at once, or started again as soon as that may be.

The end of a process is the end of its pipe, which its host sees at once. A process that is there and says
nothing is given up after 45 s without an answer (`ConnectionLimits`), longer than faults last.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.simulation.entropy import EPOCH
from simulation.judges.attempts import CALM, LOST
from simulation.judges.prompt import PROMPT_SECONDS, SLOTS
from simulation.life import LEASE_SECONDS, Life

AT_PLUGINS = frozenset(
    {
        "kill plugin",
        "kill plugin after messages",
        "kill plugin at await",
        "kill plugin at call",
        "disconnect plugin",
        "freeze plugin",
        "plugin dies again and again",
    }
)
"""Faults that no host and no disk feels."""
START_SECONDS = 150.0
"""From its claim until a run is at work or has ended: the wait before the next start of its plugin, 4 s
at most after the failures of one life, and the start itself, which rarely takes a minute here. A start that
is refused ends its run at once."""


def judge(life: Life) -> list[str]:
    """All of it. Facts bear the time of a clock: where one is set nobody knows."""
    if any(action.what == "clock" for action in life.plan.actions):
        return []
    return [*_given_up(life), *_again(life)]


def _given_up(life: Life) -> list[str]:
    """A run whose process is gone leaves `running` at once, or `claimed` if its host lost it before."""
    left = {
        (run, attempt): _time(at)
        for run, attempt, at in life.rows(
            "SELECT run_id, attempt, min(at) FROM journal j WHERE kind = 'lifecycle'"
            " AND type NOT IN ('claimed', 'running')"
            " AND last_position > (SELECT max(last_position) FROM journal r WHERE r.run_id = j.run_id"
            "   AND r.attempt = j.attempt AND r.kind = 'lifecycle' AND r.type = 'claimed')"
            " GROUP BY run_id, attempt"
        )
    }
    ended = {run: _time(at) for run, at in life.rows("SELECT run_id, finished_at FROM runs") if at}
    found = []
    for gone, run, attempt in _orphans(life):
        since = _undisturbed(life, gone, PROMPT_SECONDS)
        until = left.get((run, attempt), ended.get(run, life.world.loop.time()))
        if until - since > PROMPT_SECONDS:
            found.append(
                f"run {run} was given up only {until - since:.1f} s after the process of its plugin was gone"
            )
    return found


def _orphans(life: Life) -> Iterator[tuple[float, str, int]]:
    """Yield when a plugin process ended under a living host, with each attempt that had begun in it."""
    works: dict[str, list[tuple[str, int]]] = {}
    for at, kind, data in life.outside.notes:
        if kind == "works":
            works.setdefault(data["process"], []).append((data["run"], data["attempt"]))
        elif kind == "plugin gone" and data["host"] is not None:
            host = next(one for one in life.world.processes if one.name == data["host"])
            if host.alive:  # otherwise the runs were lost with it
                yield from ((at, run, attempt) for run, attempt in works.get(data["process"], []))


def _undisturbed(life: Life, since: float, seconds: float) -> float:
    """Return from when on nothing keeps hosts from working: `since`, or when leases that were lost are over
    after the faults.
    """
    calm = next(
        (at for at, kind, data in life.outside.notes if kind == "happened" and data["who"] == "all"), 0
    )
    for at, kind, data in life.outside.notes:
        if kind == "action" and at <= since + seconds and data["what"] not in CALM | AT_PLUGINS:
            return max(since, calm + 2 * LEASE_SECONDS)
    return since


def _again(life: Life) -> list[str]:
    """A run that is to be tried again is claimed at once, and at work as soon as its plugin is there."""
    limited = {spec["name"] for spec in life.plan.agents if spec.get("concurrency", {}).get("max_runs")}
    if SLOTS & life.plan.settings.keys():
        return []  # others may be at work
    entries: dict[str, list[tuple[str, str, float]]] = {}
    for run, to, cause, at, agent in life.rows(
        "SELECT j.run_id, j.type, json_extract(j.data, '$.cause'), j.at, r.agent_name FROM journal j"
        " JOIN runs r ON r.run_id = j.run_id WHERE j.kind = 'lifecycle' ORDER BY j.run_id, j.last_position"
    ):
        if agent not in limited:
            entries.setdefault(run, []).append((to, cause, _time(at)))
    over = ("", "", life.world.loop.time())
    found = []
    for run, steps in entries.items():
        for step, after, later in zip(steps, [*steps[1:], over], [*steps[2:], over, over], strict=False):
            if step[0] != "queued" or not step[1].startswith(LOST[1]):
                continue
            waits = [("claimed", step[2], after[2], PROMPT_SECONDS)]
            if after[0] == "claimed":
                waits.append(("begun again", after[2], later[2], START_SECONDS))
            for what, begin, end, allowed in waits:
                took = end - _undisturbed(life, begin, allowed)
                if took > allowed:
                    found.append(f"run {run}, whose plugin was gone, was {what} only {took:.1f} s later")
    return found


def _time(at: int) -> float:
    return at / 1000 - EPOCH
