"""A life as a list of events that a person can read who has not seen it.

What says the same thing is one line: a fault and what it does, a message and that it is taken, what a reader
reads in one go. A finding is told at the moment at which something noticed it, or at the end of the life.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hostler.simulation.entropy import EPOCH
from simulation.life import Ended
from simulation.telling import Event, fault_text, moment_text, step_text, told, waits_for_moment

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMED = re.compile(rf"\b(?:(run|pause|call|delivery) )?({_UUID}|[0-9a-f]{{24}})\b")
_TIME = re.compile(r"\b179\d{10}\b")
"""Milliseconds of a wall clock of the life."""
FAULTS_END = "faults end"
READ = {
    "attempt.started": "an attempt begins",
    "interaction.requested": "people are asked",
    "run.completed": "it is completed",
    "run.failed": "it failed",
    "run.cancelled": "it is cancelled",
}
LAST = frozenset({"run.completed", "run.failed", "run.cancelled"})
Log = list[tuple[float, str, dict[str, Any]]]


class _Names:
    """Short names for what has long ones: runs are called after their events, calls after what they do."""

    def __init__(self, log: Log) -> None:
        self._names: dict[str, str] = {}
        self._numbers: dict[str, Iterator[int]] = {}
        for _, kind, data in log:
            if kind == "accepted":
                self._learn(data.get("run"), f"the run of {data['event']}")
            elif kind == "effect":
                self._learn(data["call"], f"{data['tool']}({data['text']})")
            elif kind in ("decided", "voted"):
                self._learn(data["call"], data["title"])
            elif kind == "done again":
                self._learn(data["run"], f"the {data['what']} of {self.short(data['source'])}")

    def _learn(self, identity: str | None, name: str) -> None:
        if identity is not None:
            self._names.setdefault(identity, name)

    def short(self, text: str) -> str:
        """Return a text with short names, and with times of the life."""
        text = _TIME.sub(lambda found: f"{int(found[0]) / 1000 - EPOCH:.3f} s", text)
        return _NAMED.sub(self._name, text)

    def _name(self, found: re.Match[str]) -> str:
        kind, identity = found[1] or "", found[2]
        if identity not in self._names:
            number = next(self._numbers.setdefault(kind, itertools.count(1)))
            self._names[identity] = f"{kind} #{number}".strip()
        name = self._names[identity]
        known = name.startswith(("call ", "delivery "))
        return f"{kind} {name}" if kind in ("call", "delivery") and not known else name


def story_of(ended: Ended) -> list[Event]:
    """Tell a life: what people and faults did, what hosts went through, what services and readers saw."""
    names = _Names(ended.log)
    noticed = {data["text"] for _, kind, data in ended.log if kind == "wrong"}
    later = [finding for finding in ended.findings if finding.partition("\n")[0] not in noticed]
    events = _folded(_events(ended.log, [one for one in ended.findings if one not in later]))
    if not later:  # what comes after the last finding is not its cause
        while events and events[-1].who != "judge" and ended.findings:
            events.pop()
    elif events and events[-1].what.startswith(FAULTS_END):
        events.pop()
    at = max(ended.seconds, events[-1].at if events else 0.0)
    events += [_finding(at, finding) for finding in later[:1]]
    if len(later) > 1:
        events.append(_finding(at, "; ".join(["also", *later[1:]]).replace(";", ":", 1)))
    return [event._replace(what=names.short(event.what)) for event in events]


def _finding(at: float, text: str) -> Event:
    return Event(at, "judge", text, "bold red")


def _events(log: Log, noticed: list[str]) -> Iterator[Event]:
    struck = [(data["what"], data["data"]) for _, kind, data in log if kind == "struck"]
    left = list(noticed)
    seen: dict[tuple[str, str], list[tuple[int, str]]] = {}
    steps = _steps(log)
    for at, kind, data in log:
        if kind == "seen":  # a line for each reader and attempt, not for each result
            got = seen.setdefault((data["reader"], data["run"]), [])
            got.append((data["sequence"], data["type"]))
            if data["type"] in READ:
                yield _read(at, data["reader"], data["run"], got)
                got.clear()
        elif kind == "wrong":
            if data["text"] in left:
                left.remove(data["text"])
                yield _finding(at, data["text"])
        elif kind == "action" and waits_for_moment(data["what"]):
            if (data["what"], data["data"]) not in struck:
                text = f"{fault_text(data['what'], data['data'])}, {moment_text(data['what'], data['data'])}"
                yield Event(at, "fault", f"(its moment does not come) {text}", "dim")
        elif (event := told(at, kind, _with_step(data, steps) if kind == "answered" else data)) is not None:
            yield event
    end = log[-1][0] if log else 0.0
    for (reader, run), got in seen.items():
        if got:
            event = _read(end, reader, run, got)
            yield event._replace(what=f"{event.what}, and no end of it")


def _steps(log: Log) -> dict[str | None, Any]:
    """Return the steps of each run that one message alone started."""
    of_event = {
        data["data"]["id"]: data["data"]["steps"]
        for _, kind, data in log
        if kind == "action" and data["what"] == "message" and "workspace" not in data["data"]
    }
    taken = [(data.get("run"), data["event"]) for _, kind, data in log if kind == "accepted"]
    runs = Counter(run for run, _ in taken)
    return {run: of_event[event] for run, event in taken if runs[run] == 1 and event in of_event}


def _with_step(data: dict[str, Any], steps: dict[str | None, Any]) -> dict[str, Any]:
    """Add what the step is that was answered: `0` is the first one, `2.1` the second of those at once."""
    found: Any = [None, steps.get(data["run"], [])]
    for number in data["step"].split("."):
        inner = found[1] if len(found) > 1 else []
        if not isinstance(inner, list) or int(number) >= len(inner):
            return data
        found = inner[int(number)]
    return {**data, "taken": step_text(found)}


def _read(at: float, reader: str, run: str, got: list[tuple[int, str]]) -> Event:
    said = [READ[kind] for _, kind in got if kind in READ]
    return _reading(at, reader, run, got[0][0], got[-1][0], ", ".join(said))


def _reading(at: float, reader: str, run: str, first: int, last: int, said: str) -> Event:
    numbers = f"result {first}" if first == last else f"results {first} to {last}"
    text = f"reads {numbers} of run {run}"
    about = ("read", reader, run, str(first), str(last), said)
    return Event(at, f"reader {reader}", f"{text}: {said}" if said else text, "dim", about)


# -- lines that say one thing together ------------------------------------------------------------


def _folded(events: Iterable[Event]) -> list[Event]:
    """Join lines with the next ones; leave out that a host starts if it comes up."""
    folded: list[Event] = []
    for event in events:
        if event.what == "is up" and event.about[:1] == ("happened",):
            _forget_start(folded, event.who)
        joined = _joined(folded[-1], event) if folded else None
        if joined is None:
            folded.append(event)
        else:
            folded[-1] = joined
    return folded


def _forget_start(events: list[Event], host: str) -> None:
    for number in range(len(events) - 1, -1, -1):
        if events[number].who == host:
            if events[number].what == "starts":
                del events[number]
            return


def _joined(last: Event, event: Event) -> Event | None:
    """Return the one line for two, or None if they are two."""
    if not last.about or not event.about:
        return None
    join = JOINS.get((last.about[0], event.about[0]))
    return None if join is None else join(last, event)


def _strike_and_effect(last: Event, event: Event) -> Event | None:
    if last.at != event.at or last.about[1] not in ("", event.who):
        return None
    when = f", {last.about[2]}" if len(last.about) > 2 else ""
    return event._replace(what=f"{event.what}{when}", about=(*event.about, when))


def _same_of_hosts(last: Event, event: Event) -> Event | None:
    """Say of several hosts what happens to all of them; of one that power was lost, not that it is killed."""
    if last.who == event.who and last.what.startswith("is killed") and event.what.startswith("lost power"):
        if last.at == event.at:
            when = last.about[2] if len(last.about) > 2 else ""
            return event._replace(what=f"{event.what}{when}")
        return None
    if last.about[1] == event.about[1] or _of_several(event.what) != _of_several(last.what):
        return None
    if event.what == "starts":
        return None  # each goes when its host is up
    who = ", ".join(sorted([*last.who.split(", "), event.who]))
    return event._replace(who=who, what=_of_several(event.what), about=("happened", who))


def _of_several(what: str) -> str:
    return re.sub("^is ", "are ", what)


def _sent_and_taken(last: Event, event: Event) -> Event | None:
    if last.about[1] != event.about[1]:
        return None
    outcome = event.what.partition(": ")[2]
    return last._replace(what=f"{last.what}; {outcome}", about=())


def _read_on(last: Event, event: Event) -> Event | None:
    (_, reader, run, first, _, said), (_, also, other, _, end, more) = last.about, event.about
    if (reader, run) != (also, other):
        return None
    if not said.endswith(more):
        said = f"{said}, {more}" if said else more
    return _reading(event.at, reader, run, int(first), int(end), said)


def _answered_on(last: Event, event: Event) -> Event | None:
    if last.about[1:3] != event.about[1:3] or len(last.what) + len(event.about[3]) > MAX_ANSWERS:
        return None
    return event._replace(what=f"{last.what}, {event.about[3]}")


MAX_ANSWERS = 200
JOINS: dict[tuple[str, str], Callable[[Event, Event], Event | None]] = {
    ("struck", "happened"): _strike_and_effect,
    ("fault", "happened"): _strike_and_effect,
    ("happened", "happened"): _same_of_hosts,
    ("sent", "taken"): _sent_and_taken,
    ("read", "read"): _read_on,
    ("answered", "answered"): _answered_on,
}


def plain(events: Iterable[Event]) -> str:
    """Return the lines as plain text."""
    return "\n".join(f"{event.at:9.3f} s  {event.who:<12}  {event.what}" for event in events)
