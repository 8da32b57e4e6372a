"""The faults: what goes wrong, and at which host call of a run."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from hostler_protocol.errors import InvalidArgumentError

LATE_SECONDS = 5.0

FaultKind = Literal[
    "host-at-call",
    "host-at-answer",
    "plugin-before-answer",
    "plugin-after-answer",
    "plugin-in-tool",
    "plugin-at-end",
    "late-answer",
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

WHEN: dict[FaultKind, str] = {
    "host-at-call": "the host is killed when {call} arrives",
    "host-at-answer": "the host is killed before it answers {call}",
    "plugin-before-answer": "the plugin is killed before it hears the answer to {call}",
    "plugin-after-answer": "the plugin is killed after it heard the answer to {call}",
    "plugin-in-tool": "the plugin is killed when the tool of {call} is done, before it says so",
    "plugin-at-end": "the plugin is killed when the run is at its end",
    "late-answer": f"the answer to {{call}} comes {LATE_SECONDS:g} s late",
}
"""What happens, by kind of fault."""


class Fault(msgspec.Struct, frozen=True):
    """Something that goes wrong once: its kind, and the number of the call, from 1."""

    kind: FaultKind
    number: int

    def __str__(self) -> str:
        """Return it as `read_fault` reads it."""
        return f"{self.kind}:{self.number}"


class ToolRun(msgspec.Struct, frozen=True):
    """A tool that a plugin was asked to run."""

    tool: str
    arguments: str
    effect_key: str
    call_id: str
    effect: str = "default"


class Calls(msgspec.Struct, frozen=True):
    """The host calls of a run, by name: as they arrived, as they were answered; and the tools that ran."""

    asked: list[str]
    answered: list[str]
    tools: list[str]

    def of(self, kind: FaultKind) -> list[str]:
        """Return the calls at which a kind of fault may come."""
        match kind:
            case "host-at-call":
                return self.asked
            case "plugin-in-tool":
                return self.tools
            case "plugin-at-end":
                return ["the end"]
            case _:
                return self.answered


class Outcome(msgspec.Struct, frozen=True):
    """What came of a run. Messages are those that count, as text; states by scope and name."""

    status: str
    """`waiting` if it did not end."""
    code: str | None
    error: str | None
    messages: list[str]
    states: dict[str, str]
    tools: list[ToolRun]
    calls: Calls
    story: list[str]
    """What happened, a line each with its time."""
    happened: bool
    """Whether the fault came."""

    @property
    def end(self) -> str:
        """How it ended, in words."""
        reason = ": ".join(part for part in (self.code, self.error) if part is not None)
        return f"{self.status} ({reason})" if reason else self.status


def read_fault(text: str) -> Fault:
    """Return a fault written as KIND:NUMBER. InvalidArgumentError."""
    kind, _, number = text.partition(":")
    if kind not in KINDS or not (number or "1").isdecimal():
        kinds = ", ".join(KINDS)
        raise InvalidArgumentError(f"{text}: write a fault as KIND:CALL, like late-answer:1; kinds: {kinds}")
    return Fault(kind, int(number or "1"))


def when(fault: Fault, calls: Calls) -> str:
    """Say in words what went wrong."""
    names = calls.of(fault.kind)
    name = f" ({names[fault.number - 1]})" if fault.number <= len(names) else ""
    return WHEN[fault.kind].format(call=f"call {fault.number}{name}")


def name_of(method: str, params: dict[str, Any]) -> str:
    """Return the name of a host call: its method, and what it is about."""
    about = params.get("tool_name") or params.get("key") or params.get("model_id")
    name = method.removeprefix("host/")
    return f"{name} {about}" if isinstance(about, str) else name
