"""Pauses: the order of their changes, judged from the audit log and the rows.

The audit log has one fact per change of a pause, of a decision and of an execution. Each pause is followed
from its first fact to its last: only permitted changes, in order, and the rows are as the last ones say.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from simulation.life import Life

STATUSES = {
    None: {"open", "needs_review"},
    "open": {"ready", "needs_review", "cancelled", "superseded"},
    "ready": {"resuming", "cancelled"},
    "resuming": {"resumed", "ready", "needs_review", "failed", "cancelled"},
    "needs_review": {"ready", "open", "cancelled"},
}
SETTLED = frozenset({"resumed", "cancelled", "superseded", "failed"})
DECISIONS = {
    "undecided": {"approved", "denied", "answered", "cancelled", "expired"},
    "approved": {"undecided"},
}
EXECUTIONS = {
    "none": {"reserved", "in_doubt"},
    "reserved": {"reserved", "succeeded", "failed", "in_doubt", "none"},
    "in_doubt": {"succeeded", "none"},
}
MAX_CALLS = 64
MAX_ARGUMENTS = 64 * 1024


@dataclass
class Call:
    """A call of a pause, as the facts so far leave it."""

    decision: str = "undecided"
    execution: str = "none"
    approved: str | None = None
    """Digest of the arguments that were approved last."""


@dataclass
class Pause:
    """A pause, as the facts so far leave it."""

    run: str
    segment: int
    status: str | None = None
    epoch: int = 0
    claimed_by: str | None = None
    revision: int = 1
    calls: dict[str, Call] = field(default_factory=dict)


def judge(life: Life) -> list[str]:
    """All of it."""
    doubts = life.rows("SELECT pause_id, call_id FROM pause_calls WHERE kind = 'in_doubt'")
    walk = _Walk(set(doubts))
    facts = life.rows(
        "SELECT workspace_id, target, action, actor, body FROM audit WHERE action LIKE 'pause.%'"
        " AND action <> 'pause.answer_refused' ORDER BY workspace_id, seq"  # it changes nothing
    )
    for _, pause, action, actor, text in facts:
        walk.take(pause, action, actor, json.loads(text))
    found = walk.found
    found += _rows(life, walk.pauses)
    found += _notes(life, facts)
    found += _limits(life)
    return found


class _Walk:
    """Goes through the facts of all pauses in order."""

    def __init__(self, doubts: set[tuple[str, str]]) -> None:
        self.doubts = doubts
        """Calls that were added because nobody knows what came of them."""
        self.pauses: dict[str, Pause] = {}
        self.found: list[str] = []

    def take(self, name: str, action: str, actor: str, body: dict[str, Any]) -> None:
        """Take one fact."""
        _, kind, *rest = action.split(".")
        if kind not in ("call", "execution", "vote"):
            self._status(name, kind, actor, body)
            return
        pause = self.pauses.get(name)
        if pause is None:
            self.found.append(f"{action} of pause {name} comes before it was opened")
            return
        if kind == "vote":
            return
        self._epoch(name, pause, body)
        if body["call_id"] not in pause.calls:
            joins = action == "pause.call.undecided" and body["from"] is None
            if not joins or pause.status not in ("open", "needs_review"):
                self.found.append(f"{action} of call {body['call_id']}, which did not join pause {name}")
            pause.calls[body["call_id"]] = self._new(name, body["call_id"])
            if joins:
                return
        call = pause.calls[body["call_id"]]
        if kind == "call":
            self._decision(name, pause, call, rest[0], body)
        else:
            self._execution(name, pause, call, rest[0], body)

    def _new(self, name: str, call: str) -> Call:
        return Call(execution="in_doubt" if (name, call) in self.doubts else "none")

    def _status(self, name: str, to: str, actor: str, body: dict[str, Any]) -> None:
        pause = self.pauses.get(name)
        if pause is None:
            self._opened(name, body)
            pause = self.pauses[name]
        if body.get("calls"):
            for asked in body["calls"]:
                pause.calls.setdefault(asked["call_id"], self._new(name, asked["call_id"]))
        if body["from"] != pause.status:
            self.found.append(f"pause {name} goes from {body['from']} to {to}, and it was {pause.status}")
        elif to != body["from"] and to not in STATUSES.get(pause.status, set()):
            self.found.append(f"pause {name} goes from {pause.status} to {to}")
        if to == "resuming":
            again = (body["epoch"], actor) == (pause.epoch, pause.claimed_by)
            if body["epoch"] <= pause.epoch and not again:
                self.found.append(
                    f"pause {name} is claimed by {actor} under epoch {body['epoch']}, after {pause.epoch} of"
                    f" {pause.claimed_by}"
                )
            pause.claimed_by = actor
        self._epoch(name, pause, body)
        undecided = [call for call, one in pause.calls.items() if one.decision == "undecided"]
        if to == "ready" and undecided:
            self.found.append(f"pause {name} is ready, and {undecided[0]} is undecided")
        if body["revision"] < pause.revision:
            self.found.append(f"pause {name} goes back from revision {pause.revision} to {body['revision']}")
        pause.status, pause.revision = to, body["revision"]

    def _opened(self, name: str, body: dict[str, Any]) -> None:
        pause = Pause(body["run_id"], body["segment"])
        before = [one for one in self.pauses.values() if one.run == pause.run]
        if [one for one in before if one.status not in SETTLED]:
            self.found.append(f"pause {name} is opened while another one of run {pause.run} is not settled")
        if pause.segment != len(before) + 1:
            self.found.append(
                f"pause {name} is number {len(before) + 1} of its run, and says {pause.segment}"
            )
        self.pauses[name] = pause

    def _epoch(self, name: str, pause: Pause, body: dict[str, Any]) -> None:
        if body["epoch"] < pause.epoch:
            self.found.append(f"epoch {body['epoch']} wrote to pause {name} after epoch {pause.epoch} began")
        pause.epoch = max(pause.epoch, body["epoch"])

    def _decision(self, name: str, pause: Pause, call: Call, to: str, body: dict[str, Any]) -> None:
        which = f"call {body['call_id']} of pause {name}"
        if body["from"] != call.decision or to not in DECISIONS.get(call.decision, set()):
            self.found.append(f"{which} goes from {body['from']} to {to}, and it was {call.decision}")
        if to == "expired" and pause.status != "open":
            self.found.append(f"{which} expires while the pause is {pause.status}")
        if to == "undecided" and call.execution in ("reserved", "succeeded", "failed"):
            self.found.append(f"{which} is asked again, and it is {call.execution}")
        call.decision = to
        call.approved = body["args_hash"] if to == "approved" else None

    def _execution(self, name: str, pause: Pause, call: Call, to: str, body: dict[str, Any]) -> None:
        which = f"call {body['call_id']} of pause {name}"
        if body["from"] != call.execution or to not in EXECUTIONS.get(call.execution, set()):
            self.found.append(
                f"the execution of {which} goes from {body['from']} to {to}, and it was {call.execution}"
            )
        if (call.execution, to) == ("none", "in_doubt") and call.decision != "undecided":
            self.found.append(f"{which} is in doubt again, and it is {call.decision}")
        if to == "reserved" and call.decision != "approved":
            self.found.append(f"{which} is made, and it is {call.decision}")
        if to == "reserved" and call.decision == "approved" and body["args_hash"] != call.approved:
            self.found.append(f"{which} is made with other arguments than were approved")
        if to == "reserved" and pause.status not in ("resuming", "open", "needs_review"):
            self.found.append(f"{which} is made while its pause is {pause.status}")
        call.execution = to


def _rows(life: Life, pauses: dict[str, Pause]) -> list[str]:
    """The rows are where the facts end, and nothing in them is left half done."""
    found = []
    stored = life.rows(
        "SELECT p.pause_id, p.run_id, p.status, p.epoch, p.settled_at, r.status FROM pauses p"
        " LEFT JOIN runs r ON r.run_id = p.run_id"
    )
    for name, run, status, epoch, settled, run_status in stored:
        pause = pauses.get(name, Pause(run, 0))
        if pause.status != status:
            found.append(f"pause {name} is {status}, and its last fact says {pause.status}")
        if epoch < pause.epoch:
            found.append(f"pause {name} has epoch {epoch}, and its facts go to {pause.epoch}")
        if (settled is None) == (status in SETTLED):
            found.append(f"pause {name} is {status}, and settled at {settled}")
        if status not in SETTLED and run_status in ("completed", "failed", "cancelled", "timeout"):
            found.append(f"pause {name} is {status}, and run {run} is {run_status}")
    gone = pauses.keys() - {row[0] for row in stored}
    found += [f"pause {name} has facts and no row" for name in sorted(gone)]
    calls = life.rows(
        "SELECT c.pause_id, c.call_id, c.decision, c.execution, c.handed_over, c.effect_key, p.status,"
        " p.form FROM pause_calls c JOIN pauses p ON p.pause_id = c.pause_id"
    )
    for name, call_id, decision, execution, handed_over, key, status, form in calls:
        which = f"call {call_id} of pause {name}"
        call = pauses.get(name, Pause("", 0)).calls.get(call_id)
        if call is None:
            found.append(f"no fact says that {which} was asked")
            continue
        if (decision, execution) != (call.decision, call.execution):
            found.append(
                f"{which} is {decision} and {execution},"
                f" and its facts end with {call.decision} and {call.execution}"
            )
        if execution != "none" and key is None:
            found.append(f"{which} is {execution}, and has no effect key")
        if status == "resumed" and form == "implicit" and not handed_over:
            found.append(f"the runner never got the outcome of {which}, and the pause is resumed")
        if status in SETTLED and execution == "reserved":
            found.append(f"{which} is reserved, and the pause is {status}")
    return found


def _notes(life: Life, facts: list[tuple[Any, ...]]) -> list[str]:
    """The journals of the runs hold the same changes as the audit log."""
    noted: dict[str, list[str]] = defaultdict(list)
    for run, action, text in life.rows(
        "SELECT run_id, type, data FROM journal WHERE kind = 'decision' ORDER BY run_id, last_position"
    ):
        entry = json.loads(text)
        noted[run].append(f"{entry['pause_id']} {action} {entry.get('call_id')}")
    audited: dict[str, list[str]] = defaultdict(list)
    for _, pause, action, _, text in facts:
        body = json.loads(text)
        if not action.startswith("pause.execution"):
            audited[body["run_id"]].append(f"{pause} {action} {body.get('call_id')}")
    return [
        f"run {run}: its journal has the changes {noted[run]}, the audit log {audited[run]}"
        for run in sorted(noted.keys() | audited.keys())
        if noted[run] != audited[run]
    ]


def _limits(life: Life) -> list[str]:
    found = [
        f"pause {pause} has {count} calls"
        for pause, count in life.rows("SELECT pause_id, count(*) FROM pause_calls GROUP BY 1")
        if count > MAX_CALLS
    ]
    for call, asked, effective in life.rows("SELECT call_id, asked, effective FROM pause_calls"):
        arguments = effective or json.dumps(json.loads(asked).get("arguments"))
        if len(arguments) > MAX_ARGUMENTS:
            found.append(f"call {call} asks with {len(arguments)} bytes of arguments")
    return found
