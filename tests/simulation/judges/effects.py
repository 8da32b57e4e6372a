"""Nothing twice: a tool of the default class runs once per call, an idempotent one has one effect."""

from __future__ import annotations

from collections import defaultdict

from simulation.life import Life
from simulation.outside import Effect

ONCE = frozenset({"note", "refund"})


def judge(life: Life) -> list[str]:
    """All of it."""
    made: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for effect in life.outside.effects:
        made[effect.run, effect.call].append(effect)
    found = []
    lied = {data["key"] for _, kind, data in life.outside.notes if kind == "lied"}
    restarted = _restarted(life)
    for (run, call), effects in made.items():
        if run in restarted:
            continue
        tool, done = effects[0].tool, [effect for effect in effects if effect.made]
        if tool in ONCE and len(effects) > 1:
            found.append(f"{tool} was called {len(effects)} times for call {call} of run {run}")
        if tool in ("book", "pay") and len(done) > 1 and effects[0].key not in lied:
            found.append(f"{tool} had {len(done)} effects for call {call} of run {run}")
        if tool == "book" and len({effect.key for effect in effects}) > 1:
            found.append(f"{tool} saw several keys for call {call} of run {run}")
    found += _decisions(life)
    return found


def _restarted(life: Life) -> set[str]:
    """Return the runs whose agent wants them done again from nothing after a crash, with all they do."""
    agents = {
        spec["name"] for spec in life.plan.agents if spec.get("recovery", {}).get("on_crash") == "restart"
    }
    return {run for run, agent in life.rows("SELECT run_id, agent_name FROM runs") if agent in agents}


def _decisions(life: Life) -> list[str]:
    """What was acknowledged stays, unless the call was asked again since: its tool or approver changed."""
    stored = {
        (pause, call): decision
        for pause, call, decision in life.rows("SELECT pause_id, call_id, decision FROM pause_calls")
    }
    asked_again = set(
        life.rows(
            "SELECT target, json_extract(body, '$.call_id') FROM audit WHERE action = 'pause.call.undecided'"
        )
    )
    found = []
    for _, kind, data in life.outside.notes:
        if kind != "decided" or (call := (data["pause"], data["call"])) in asked_again:
            continue
        if stored.get(call) != data["decision"]:
            found.append(
                f"the decision {data['decision']} on {call[1]} was acknowledged, and is {stored.get(call)}"
            )
    return found
