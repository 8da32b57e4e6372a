"""Holds what a counter saw against the database: nothing twice, nothing lost, what is unclear shown.

It reads the database with SQL of its own, so that a mistake of the stores cannot hide itself.
"""

from __future__ import annotations

import json
from collections import Counter as Count
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from support.counting import Effect, Facts, Told
from support.effect_programs import DURABLE, Steps, step_at
from support.oracle import rows
from support.people import People

ENDS = {("completed", None), ("failed", "pause.failed")}
"""A run ends well, or says that it was lost again and again while it went on after its pause."""
SETTLED = {"resumed", "failed", "cancelled"}
CUT_OFF = {"error": "cancelled"}
"""What a runner hears whose attempt is over before it was answered."""
ONCE = frozenset({"note", "refund"})
"""Tools of the default class."""

Call = tuple[str, str]
"""Run and call id."""


@dataclass
class Ledger:
    """What the database says of calls and pauses."""

    runs: dict[str, tuple[str, str, str | None]]
    """run id -> event id, status, code."""
    intents: dict[Call, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    outcomes: dict[tuple[str, str, str, int], list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """(run, method, digest, nth) -> outcomes of it."""
    of_call: dict[Call, dict[str, Any]] = field(default_factory=dict)
    """The outcome of a call that had an intent."""
    votes: dict[Call, list[str]] = field(default_factory=lambda: defaultdict(list))
    decisions: dict[tuple[str, str], str] = field(default_factory=dict)
    """(pause, call) -> decision."""


def read_ledger(url: str) -> Ledger:
    """Read it."""
    found = rows(url, "SELECT run_id, event_id, status, status_code FROM runs")
    ledger = Ledger({str(run): (str(event), str(status), code) for run, event, status, code in found})
    query = "SELECT run_id, attempt, kind, data FROM journal WHERE kind IN ('intent', 'call') ORDER BY 1, {}"
    by_name: dict[tuple[str, str, str, int], str] = {}
    for run_id, attempt, kind, data in rows(url, query.format("last_position")):
        entry = {**json.loads(data), "attempt": attempt}
        name = (run_id, entry["method"], entry["digest"], entry["nth"])
        if kind == "intent":
            ledger.intents[run_id, entry["call_id"]].append(entry)
            by_name[name] = entry["call_id"]
        else:
            ledger.outcomes[name].append(entry)
    for name, call_id in by_name.items():
        if name in ledger.outcomes:
            ledger.of_call[name[0], call_id] = ledger.outcomes[name][0]
    query = (
        "SELECT p.run_id, v.call_id, v.vote FROM decision_votes v JOIN pauses p"
        " ON p.workspace_id = v.workspace_id AND p.pause_id = v.pause_id"
    )
    for run_id, call_id, vote in rows(url, query):
        ledger.votes[run_id, call_id].append(vote)
    found = rows(url, "SELECT pause_id, call_id, decision FROM pause_calls")
    ledger.decisions = {(pause, call): decision for pause, call, decision in found}
    return ledger


@dataclass
class EffectOracle:
    """The independent witness of effects."""

    url: str
    programs: dict[str, Steps]
    facts: Facts
    people: People
    paid: dict[str, list[str]]
    said: dict[str, str]
    """run id -> the last message of a completed run."""

    def check(self) -> dict[str, int]:
        """All of it; how much there was to look at."""
        ledger = read_ledger(self.url)
        ends = Count((status, code) for _, status, code in ledger.runs.values())
        assert ends.keys() <= ENDS, (ends, self._failures())
        unsettled = rows(self.url, "SELECT DISTINCT status FROM pauses")
        assert {status for (status,) in unsettled} <= SETTLED
        effects: dict[Call, list[Effect]] = defaultdict(list)
        for effect in self.facts.effects:
            effects[effect.run, effect.call].append(effect)
        for call, made in effects.items():
            self._check_effects(ledger, call, made)
        for name, outcomes in ledger.outcomes.items():
            assert len(outcomes) == 1, f"{name} has {len(outcomes)} outcomes: a recorded one was made again"
        doubts = self._check_doubts(ledger)
        self._check_models(ledger)
        self._check_answers(ledger)
        for key, decision in self.people.decided.items():
            assert ledger.decisions[key] == decision, f"an acknowledged decision changed: {key}"
        return {
            "runs": len(ledger.runs),
            "given up": ends["failed", "pause.failed"],
            "effects": len(self.facts.effects),
            "in doubt": doubts,
            "decided": len(self.people.decided),
            "decided again": self.people.repeated,
            "paid": sum(map(len, self.paid.values())),
        }

    def _failures(self) -> list[tuple[Any, ...]]:
        found = rows(self.url, "SELECT run_id, data FROM journal WHERE type = 'run.failed'")
        return [(run_id, json.loads(data)["data"]["error"]) for run_id, data in found]

    def _check_effects(self, ledger: Ledger, call: Call, made: list[Effect]) -> None:
        tool, outcome = made[0].tool, ledger.of_call.get(call)
        done = [effect for effect in made if effect.made]
        if tool == "price":
            recorded = {
                entries[0]["reply"]["result"]["serial"]
                for name, entries in ledger.outcomes.items()
                if name[0] == call[0] and entries[0].get("effect") == "pure" and "reply" in entries[0]
            }
            earlier = {effect.serial for effect in made[:-1]}
            assert not earlier & recorded, f"{call}: a recorded result of {tool} was computed again"
            return
        assert len(done) == 1, f"{tool} was done {len(done)} times for {call}: {done}"
        keys = {intent["effect_key"] for intent in ledger.intents[call]}
        assert {effect.key for effect in made} <= keys, f"{tool} was called without an intent"
        if tool in ONCE:
            assert len(made) == 1
        else:
            assert len(keys) == 1, f"{tool} saw several keys for {call}"
        if outcome is not None:
            assert "reply" in outcome, f"{call}: {tool} did its work, and the run was told {outcome['error']}"
            assert outcome["reply"]["result"] == {"serial": done[0].serial}
        else:
            assert ledger.runs[call[0]][1] == "failed", f"{call}: what {tool} did was lost"

    def _check_doubts(self, ledger: Ledger) -> int:
        """Whatever was begun by one attempt and came to its end in another was asked of a person."""
        for call, intents in ledger.intents.items():
            if intents[0].get("effect") != "default":
                assert call not in self.people.resolved, f"{call} need not have been asked"
                continue
            votes = [vote for vote in ledger.votes[call] if vote in {"happened", "not_happened"}]
            said = Count(self.people.resolved.get(call, []))
            assert said <= Count(votes), f"{call}: what a person said is gone"
            asked = 1 + votes.count("not_happened")
            assert len(intents) <= asked, f"{call}: begun again unasked"
            if ledger.runs[call[0]][1] != "failed":  # else it may have ended before it began again
                assert len(intents) == asked, f"{call}: not begun again, although it was asked for"
            outcome = ledger.of_call.get(call)
            if outcome is not None and outcome["attempt"] != intents[-1]["attempt"]:
                assert "happened" in votes, f"{call} was in doubt, and nobody was asked"
        return sum(map(len, self.people.resolved.values()))

    def _check_models(self, ledger: Ledger) -> None:
        for (run_id, method, _, _), (entry, *_) in ledger.outcomes.items():
            if method.startswith("model."):
                question = entry["params"]["messages"][-1]["content"]
                answer = entry["reply"]["message"]["content"]
                assert answer == self.paid[question][-1], f"{run_id}: {question!r} was paid for again"

    def _check_answers(self, ledger: Ledger) -> None:
        """What runners were told of effects stands, and is what they came to their end with."""
        told: dict[str, list[Told]] = defaultdict(list)
        for one in self.facts.told:
            told[one.run].append(one)
        for run_id, (event_id, status, _) in ledger.runs.items():
            program = self.programs[event_id]
            answers: dict[str, Any] = json.loads(self.said[run_id]) if status == "completed" else {}
            for one in told[run_id]:
                kind, *rest = step_at(program, one.step)
                durable = kind in {"set", "ask"} or (kind == "tool" and rest[0] in DURABLE)
                if durable and one.answer != CUT_OFF:
                    final = answers.setdefault(one.step, one.answer)
                    assert final == one.answer, f"{run_id}: step {one.step} was {one.answer}, then {final}"
