"""A life as a list of events that a person can read."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from simulation.life import Ended

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
MAX_TEXT = 200
UNTOLD = frozenset({"power cut", "kept", "continued", "unheard", "not now", "wrong"})
"""Said by what happened to the host, what the runner gets, a message sent again, or the judge."""
LATE = ("run.completed", "run.failed", "run.cancelled", "attempt.started")


class Event(NamedTuple):
    """One line. `style` is one of Rich's."""

    at: float
    who: str
    what: str
    style: str = ""


class _Names:
    """Short names for what has long ones: runs are called after their events."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def learn(self, identity: str | None, name: str) -> None:
        if identity is not None:
            self._names.setdefault(identity, name)

    def short(self, text: str) -> str:
        return _UUID.sub(self._name, text)

    def _name(self, found: re.Match[str]) -> str:
        if found[0] not in self._names:
            self._names[found[0]] = f"#{next(self._numbers)}"
        return self._names[found[0]]


def story_of(ended: Ended) -> list[Event]:
    """Tell a life: what people and faults did, what hosts went through, what services and readers saw."""
    names = _Names()
    for _, kind, data in ended.log:
        if kind == "accepted":
            names.learn(data.get("run"), f"run({data['event']})")
    events = [
        Event(event.at, event.who, names.short(event.what), event.style) for event in _events(ended.log)
    ]
    at = events[-1].at if events else 0.0
    events = [
        event
        for event, after in zip(events, [*events[1:], None], strict=True)
        if not _overtaken(event, after)
    ]
    return events + [Event(at, "judge", names.short(finding), "bold red") for finding in ended.findings]


def _events(log: Iterable[tuple[float, str, dict[str, Any]]]) -> Iterator[Event]:
    seen: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for at, kind, data in log:
        if kind in UNTOLD or (kind == "fault" and "service" not in data):
            continue
        if kind == "seen":  # a line for each reader and attempt, not for each result
            got = seen.setdefault((data["reader"], data["run"]), [])
            got.append((data["sequence"], data["type"]))
            if data["type"] in LATE:
                yield Event(at, f"reader {data['reader']}", f"sees {_results(got)} of {data['run']}", "dim")
                got.clear()
            continue
        tell = TELL.get(kind)
        yield tell(at, data) if tell is not None else Event(at, kind, _pairs(data))
    for (reader, run), got in seen.items():
        if got:
            yield Event(at, f"reader {reader}", f"has seen {_results(got)} of {run}, and no end", "dim")


def _overtaken(event: Event, after: Event | None) -> bool:
    """Whether the next line says it all: a host that starts and is up."""
    return after is not None and (event.what, after.what, after.who) == ("starts", "is up", event.who)


def _results(got: list[tuple[int, str]]) -> str:
    (first, _), (last, kind) = got[0], got[-1]
    return f"{first} ({kind})" if first == last else f"{first} to {last} ({kind})"


def _pairs(data: Any) -> str:
    if isinstance(data, dict):
        return _cut(", ".join(f"{key} {_text(value)}" for key, value in data.items()))
    return _text(data)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _action(at: float, data: dict[str, Any]) -> Event:
    what, more = data["what"], data["data"]
    if "host" in more:
        more = {"host": f"h{more['host']}", **{key: value for key, value in more.items() if key != "host"}}
    if what == "message":
        head = f"{more['id']} to {more['agent']} in {more['conversation']}"
        return Event(at, "sends", _cut(f"{head}: {json.dumps(more['steps'])}"), "cyan")
    return Event(
        at, what, _pairs({key: value for key, value in more.items() if key not in _quiet(what)}), "yellow"
    )


def _quiet(what: str) -> frozenset[str]:
    return frozenset({"by"} if what != "clock" else {"seconds"})


def _happened(at: float, data: dict[str, Any]) -> Event:
    return Event(at, data["who"], data["what"], "bold yellow")


def _effect(at: float, data: dict[str, Any]) -> Event:
    what = "has its effect" if data["made"] else "is answered like the first time"
    return Event(at, "service", f"{data['tool']} of {data['run']} for {data['text']} {what}", "green")


def _answered(at: float, data: dict[str, Any]) -> Event:
    text = f"{data['run']}, attempt {data['attempt']}: step {data['step']} gets {_text(data['answer'])}"
    return Event(at, "runner", _cut(text))


def _accepted(at: float, data: dict[str, Any]) -> Event:
    run = "" if data.get("run") is None else f", {data['run']}"
    return Event(at, "host", f"takes {data['event']}: {data['outcome']}{run}", "cyan")


TELL: dict[str, Callable[[float, dict[str, Any]], Event]] = {
    "action": _action,
    "happened": _happened,
    "effect": _effect,
    "answered": _answered,
    "accepted": _accepted,
}


def plain(events: Iterable[Event]) -> str:
    """Return the lines as plain text."""
    return "\n".join(f"{event.at:9.3f} s  {event.who:<12}  {event.what}" for event in events)
