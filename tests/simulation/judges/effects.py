"""Nothing twice: a tool of the default class runs once per call, an idempotent one has one effect.

An agent whose policy is `restart` has its runs begin again in any case, with all that they did: "choosing it
means that repeating is fine" (docs/decisions, going-on-from-the-journal). Neither a look-up nor a person who
says that nothing happened can know of a request that is still on its way to the service: one that comes
afterwards is not counted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from simulation.life import Life
from simulation.outside import Effect

ONCE = frozenset({"note", "refund", "take"})


def judge(life: Life) -> list[str]:
    """All of it."""
    made: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for effect in life.outside.effects:
        made[effect.run, effect.call].append(effect)
    found = []
    lied = {data["key"] for _, kind, data in life.outside.notes if kind == "lied"}
    restarts, overtaken = _restarts(life), _overtaken(life)
    for (run, call), effects in made.items():
        tool, done = effects[0].tool, [effect for effect in effects if effect.made]
        most = 1 + restarts[run] + len(overtaken.intersection(done))
        if tool in ONCE and len(effects) > most:
            found.append(f"{tool} was called {len(effects)} times for call {call} of run {run}")
        if tool in ("book", "pay", "order") and len(done) > most and effects[0].key not in lied:
            found.append(f"{tool} had {len(done)} effects for call {call} of run {run}")
        if tool in ("book", "order") and len({effect.key for effect in effects}) > 1:
            found.append(f"{tool} saw several keys for call {call} of run {run}")
    return [*found, *_decisions(life), *_outcomes(life)]


def _overtaken(life: Life) -> set[Effect]:
    """Return the effects whose request was on its way when a look-up, or a person, found nothing."""
    missed: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for at, kind, data in life.outside.notes:
        if kind == "not found by key":
            missed[(data["key"],)].append(at)
        elif kind == "resolved" and data["outcome"] == "not_happened":
            for call in (data["call"], data["text"]):
                missed[data["run"], call].append(at)
    return {
        one
        for one in life.outside.effects
        if one.sent is not None
        and any(one.sent < at <= one.at for at in (*missed[(one.key,)], *missed[one.run, one.call]))
    }


def _restarts(life: Life) -> Counter[str]:
    """Count how often each run began again because its agent wants it so."""
    willing = {
        spec["name"] for spec in life.plan.agents if spec.get("recovery", {}).get("on_crash") == "restart"
    }
    found: Counter[str] = Counter()
    for run, agent, text in life.rows(
        "SELECT run_id, agent_name, data FROM journal JOIN runs USING (run_id)"
        " WHERE kind = 'lifecycle' AND type = 'queued'"
    ):
        found[run] += agent in willing and json.loads(text)["cause"].endswith("; it restarts")
    return found


def _decisions(life: Life) -> list[str]:
    """A decision stays, unless its call was asked again at a later revision: its tool or approver changed."""
    stored = {
        (pause, call): (decision, revision)
        for pause, call, decision, revision in life.rows(
            "SELECT pause_id, call_id, decision, revision FROM pause_calls"
        )
    }
    found = []
    for _, kind, data in life.outside.notes:
        if kind != "decided":
            continue
        now, revision = stored.get((data["pause"], data["call"]), (None, 0))
        if now != data["decision"] and revision <= data["revision"]:
            which = f"the decision {data['decision']} on {data['call']} of pause {data['pause']}"
            found.append(f"{which} was acknowledged, and is {now}")
    return found


def _outcomes(life: Life) -> list[str]:
    """Each call of a resumable run that completed has an outcome, and one more whenever it began again."""
    restarts = _restarts(life)
    rows = life.rows(
        "SELECT run_id, json_extract(data, '$.digest'), json_extract(data, '$.nth'),"
        " json_extract(data, '$.tool_name'), kind FROM journal JOIN runs USING (run_id)"
        " WHERE type = 'tool.call' AND status = 'completed'"
        " AND (kind IN ('intent', 'call')"
        # repeated after the deadline
        "  OR kind = 'refusal' AND json_extract(data, '$.error.code') = 'deadline_exceeded')"
        " AND json_extract(data, '$.late') IS NULL"  # told to nobody
        " AND runner_id LIKE '%/resumable' AND count = 1"
    )
    intended = {(run, call, nth): tool for run, call, nth, tool, kind in rows if kind == "intent"}
    outcomes = Counter((run, call, nth) for run, call, nth, _, kind in rows if kind != "intent")
    return [
        f"run {call[0]} completed, and its call of {tool} has {outcomes[call]} outcomes"
        for call, tool in intended.items()
        if not 1 <= outcomes[call] <= 1 + restarts[call[0]]
    ]
