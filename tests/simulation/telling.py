"""Sentences for the lines of a life's log, for somebody who has not seen the life."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_TEXT = 200
Data = dict[str, Any]


class Event(NamedTuple):
    """One line. `style` is one of Rich's. `about`: which lines may be told together."""

    at: float
    who: str
    what: str
    style: str = ""
    about: tuple[str, ...] = ()


UNTOLD = frozenset(
    {"power cut", "kept", "continued", "unheard", "not now", "paid", "received", "counted", "wrong", "fault"}
    | {"works", "plugin gone"}
)
"""Said by what happened to the host, what the runner gets, a message sent again, or the judge."""
STRUCK = {
    "intended": "the intent of a tool's call is committed",
    "asked": "a tool asks its service",
    "arrived": "the request of a tool arrives at its service",
    "done": "a service has done what a tool asked for",
    "answered": "the outcome of a tool's call is committed",
    "claimed": "a run is claimed",
    "waiting": "a run begins to wait for people",
    "going on": "a run that people have decided about is about to go on",
    "told": "a result of a run is committed",
    "accepted": "a client hears that its message was taken",
    "decided": "a person hears that a decision was taken",
}
"""Moments at which workloads/calls.py lets something go wrong."""
MOMENTS = ("at call", "at await", "after commits", "after messages", "disconnect plugin", "commit ")
FAULTS = {
    "kill host": "{host} is killed",
    "kill plugin": "the plugins of {host} are killed",
    "freeze host": "{host} is frozen",
    "freeze plugin": "the plugins of {host} are frozen for {seconds} s",
    "power cut": "{host} loses power",
    "disk full": "the disk of {host} is full for {seconds} s",
    "disk slow": "each commit of {host} takes half a second longer, for {seconds} s",
    "clock": "the clock of {host} jumps by {by} s",
    "stop host": "{host} is asked to stop",
    "kill all": "all hosts are killed",
    "freeze all": "all hosts are frozen",
    "disconnect plugin": "the connections between {host} and its plugins break",
    "plugin dies again and again": "plugins of {host} die soon after their start, {count} times",
    "commit fails": "the next commits of {host} fail ({times})",
    "commit unheard": "{host} does not hear that its next commits were made ({times})",
    "filters break": "filters cannot be evaluated for {seconds} s",
}
ILLS = {
    "down": "no connection is made",
    "silent": "a connection that is being made gets no answer",
    "hang": "nothing is done, and no answer comes",
    "lost": "it is done, and no answer comes",
    "torn": "it is done, and the connection breaks before the answer",
    "late": "it is done, and answered late",
    "lie": "what was done is denied",
    "slow": "the answer comes piece by piece",
    "half": "the connection breaks in the middle of the answer",
    "short": "the answer ends in its middle",
    "html": "the answer is a page of a proxy",
    "garbage": "the answer is cut off",
    "another": "the answer is that to an earlier request",
}
SERVICES = {"tool": "the services of tools", "look": "look-ups of what tools have done"}
ACTIONS = {
    "cancel": "somebody cancels the run of {event}",
    "retry": "somebody wants the run of {event} tried again once it is over",
    "fork": "somebody wants a fork of the run of {event}",
    "send again": "somebody sends {event} again",
    "send another": "somebody sends something else as {event}",
    "read late": "a second reader follows the run of {event}",
    "replay": "somebody wants the run of {event} replayed",
    "trespass": "somebody of the other workspace looks for the run of {event}",
    "erase": "somebody wants all of the {kind} {id} deleted",
    "back up and restore": "an operator makes a backup, and looks at it",
    "keep for seconds": "an operator lets files and states be removed after {seconds} s",
    "change agent": "an operator changes the agent {agent}",
    "disable agent": "an operator disables the agent {agent} for {seconds} s",
    "prune": "an operator removes the agent {agent}, and brings it back {seconds} s later",
    "restart plugin": "an operator restarts the plugin at all hosts",
    "upgrade plugin": "an operator changes a tool of the plugin, and restarts it at all hosts",
    "roll": "an operator stops and starts one host after the other",
    "backup": "an operator makes a backup",
    "collect": "an operator lets data be removed after a day",
    "change pause key": "an operator changes the key that seals pauses",
}
NOTES = {
    "refused": ("host", "refuses {event}: {code}: {error}"),
    "cancelled": ("host", "takes the cancellation of {run}"),
    "resolved": ("clerk", "finds out that {call} of {run} has {outcome}"),
    "pause cancelled": ("person", "cancels {pause} of {run}"),
    "decision refused": ("host", "refuses a decision of {by}: {code}: {error}"),
    "operated": ("operator", "has done it: {what}"),
    "operation refused": ("operator", "is refused: {what}: {code}: {error}"),
    "done again": ("host", "makes a {what} of {source}: {run}"),
    "not done again": ("host", "refuses a {what} of {run}: {code}: {error}"),
    "replays": ("operator", "replays {run}"),
    "replayed": ("operator", "has replayed {run}"),
    "erased": ("operator", "has deleted all of the {what} {id}"),
    "erasure refused": ("operator", "cannot delete all of {id} yet: {error}"),
    "ignored a cancellation": ("runner", "{run} ignores its cancellation"),
    "asked": ("model", "is asked {question}"),
    "posted": ("webhook", "{hook} gets delivery {delivery}, attempt {attempt}"),
    "read late": ("reader", "has read all of {run} once more"),
    "restored": ("operator", "has restored the backup"),
    "later version": ("plugin", "{call} of {run} reaches a newer version of its tool"),
    "misdeed": ("rogue", "{run}, attempt {attempt}: does what it must not: {what}"),
    "repeated": ("person", "repeats a decision about {pause}"),
    "not found by key": ("service", "knows of no payment yet, as a look-up learns"),
    "not found": ("host", "denies that there is anything to {what}"),
}
OUTCOMES = {
    "started": "it starts {run}",
    "queued": "{run} is queued",
    "steered": "it is steered into {run}",
}
STEPS = {
    "tool": "call",
    "shop": "call shop",
    "desk": "call desk",
    "ask": "ask people",
    "hold": "pause itself for",
    "together": "at once",
    "child": "have a child run",
    "leave": "begin a child run",
    "kin": "have a child run of its own",
    "overreach": "try to create runs that it must not",
    "deltas": "stream",
    "pull": "take steered messages",
    "model": "ask a model",
    "stream": "ask a model, piece by piece,",
    "set": "write the state",
    "get": "read the state",
    "stubborn": "ignore cancellations for",
}
"""Words for steps of a run (plugin/actor.py) that are called otherwise."""
TIMED = ("wait", "stubborn")
VERBS = {
    "approve": "approves",
    "deny": "denies",
    "result": "gives the result of",
    "error": "says that nothing can come of",
    "answer": "answers",
}


def told(at: float, kind: str, data: Data) -> Event | None:
    """Return the line of the story for a line of the log; None if it has none."""
    if kind == "fault" and "service" in data:
        return Event(at, data["service"], f"request {data['number']}: {_ill(data['fault'])}", "bold yellow")
    if kind in UNTOLD:
        return None
    if (tell := TELL.get(kind)) is not None:
        return tell(at, data)
    if kind in NOTES:
        who, sentence = NOTES[kind]
        return Event(at, who, cut(sentence.format_map(_Known(data))))
    return Event(at, kind, pairs(data))


class _Known(dict[str, Any]):
    """What a sentence may name. Runs, pauses and calls are replaced by their names later."""

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        if isinstance(data.get("host"), int):
            self["host"] = f"h{data['host']}"
        for key in ("run", "source"):
            if data.get(key) is not None:
                self[key] = f"run {data[key]}"
        for key in ("pause", "call"):
            if data.get(key) is not None:
                self[key] = f"{key} {data[key]}"
        if data.get("outcome") == "not_happened":
            self["outcome"] = "not happened"

    def __missing__(self, key: str) -> str:
        return "?"


def _action(at: float, data: Data) -> Event:
    what, more = data["what"], data["data"]
    if what == "message":
        place = "the second workspace, " if "workspace" in more else ""
        late = f", to begin {more['delay']} s later" if more.get("delay") else ""
        agent = f" to {more['agent']}" if more["agent"] else ""
        head = f"{more['id']}{agent} in {place}{more['conversation']}{late}"
        steps = steps_text(more["steps"])
        return Event(at, "sends", cut(f"{head}: {steps}"), "cyan", ("sent", more["id"]))
    known = _Known(more)
    if what == "ill":
        service = SERVICES.get(more["service"], more["service"])
        share = "" if more["share"] == 1 else f", at {more['share']:.0%} of the requests"
        text = f"{service}, for {more['seconds']} s{share}: {_ill(more['kind'])}"
        return Event(at, "fault", text, "yellow")
    if what in ACTIONS:
        return Event(at, "action", ACTIONS[what].format_map(known), "yellow")
    host = str(known["host"]) if "host" in more else ""
    return Event(at, "fault", fault_text(what, more), "yellow", ("fault", host))


def fault_text(what: str, data: Data) -> str:
    """Say what goes wrong."""
    for moment in MOMENTS:
        what = what.removesuffix(f" {moment}")
    known = _Known({"host": "the host", **data})
    return FAULTS[what].format_map(known) if what in FAULTS else f"{what}: {pairs(data)}"


def waits_for_moment(what: str) -> bool:
    """Whether it is a fault that comes when something else has happened, perhaps several times."""
    return any(moment in what for moment in MOMENTS)


def _ill(kind: str) -> str:
    return ILLS.get(kind, f"the answer is {kind}")


def moment_text(what: str, data: Data) -> str:
    """Say when a fault comes that waits for its moment."""
    count = data["count"]
    if "stage" in data:
        return f"as {STRUCK[data['stage']]}" + ("" if count == 1 else f" for the {nth(count)} time")
    if what.endswith("at await"):
        return f"at the {nth(count)} of its steps"
    if what.endswith("commits") or what.startswith("commit"):
        return f"right after its {nth(count)} commit"
    return f"at the {nth(count)} piece of a message between the host and its plugins"


def nth(count: int) -> str:
    """Return 1st, 2nd, ..."""
    special = {1: "st", 2: "nd", 3: "rd"}
    return f"{count}{'th' if 10 < count % 100 < 20 else special.get(count % 10, 'th')}"


def _struck(at: float, data: Data) -> Event:
    when = moment_text(data["what"], data["data"])
    what = fault_text(data["what"], {**data["data"], "host": data["host"]})
    return Event(at, "fault", f"{what}, {when}", "bold yellow", ("struck", data["host"], when))


def _happened(at: float, data: Data) -> Event:
    return Event(at, data["who"], data["what"], "bold yellow", ("happened", data["who"]))


def _effect(at: float, data: Data) -> Event:
    call = f"{data['tool']}({data['text']}) of run {data['run']}"
    text = f"carries out {call}" if data["made"] else f"is asked for {call} again, and answers like before"
    return Event(at, "service", text, "green")


def _answered(at: float, data: Data) -> Event:
    text = f"run {data['run']}, attempt {data['attempt']}: "
    answer = f"{data.get('taken', 'step ' + data['step'])} gets {_text(data['answer'])}"
    return Event(
        at, "runner", cut(text + answer), "", ("answered", data["run"], str(data["attempt"]), answer)
    )


def _accepted(at: float, data: Data) -> Event:
    outcome = OUTCOMES.get(data["outcome"], "{outcome}: {run}" if data.get("run") else "{outcome}")
    text = f"takes {data['event']}: {outcome.format_map(_Known(data))}"
    return Event(at, "host", text, "cyan", ("taken", data["event"]))


def _post_answered(at: float, data: Data) -> Event | None:
    status = data["status"]
    if status is not None and 200 <= status < 300:
        return None
    answer = "no answer" if status is None else f"status {status}"
    return Event(at, "webhook", f"{data['hook']}: the host gets {answer} for delivery {data['delivery']}")


def _sent_again(at: float, data: Data) -> Event:
    outcome = "is known already" if data.get("duplicate") else "is taken as new"
    if "code" in data:
        outcome = f"is refused: {data['code']}"
    return Event(at, "host", f"{data['event']}, sent again, {outcome}", "cyan")


def _decided(at: float, data: Data) -> Event:
    text = f"{VERBS[data['type']]} call {data['call']} of run {data['run']}"
    if data["edited"] is not None:
        text += f", with other arguments: {_text(data['edited'])}"
    if data["ahead"] is not None:
        text += f", and {data['ahead']} calls like it"
    if data["remaining"]:
        text += f"; {data['remaining']} more of the pause to decide"
    return Event(at, data["by"], cut(text), "cyan")


TELL: dict[str, Callable[[float, Data], Event | None]] = {
    "post answered": _post_answered,
    "sent again": _sent_again,
    "action": _action,
    "struck": _struck,
    "happened": _happened,
    "effect": _effect,
    "answered": _answered,
    "accepted": _accepted,
    "decided": _decided,
    "voted": _decided,
}


def steps_text(steps: Any) -> str:
    """Return steps of a run in one line: `call note e1.4, wait 2 s`."""
    if not steps:
        return "nothing to do"
    return ", ".join(map(step_text, steps))


def step_text(step: Any) -> str:
    """Return a step in a few words."""
    if not isinstance(step, list):
        return str(step)
    kind, *rest = step
    words = [f"({steps_text(one)})" if isinstance(one, list) else _text(one) for one in rest]
    return " ".join([STEPS.get(str(kind), str(kind)), *words, *(["s"] if kind in TIMED else [])])


def pairs(data: Any) -> str:
    """Return data in one line, without what is not there."""
    if isinstance(data, dict):
        return cut(", ".join(f"{key} {_text(value)}" for key, value in data.items() if value is not None))
    return _text(data)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def cut(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
