"""A recorded run as a tape: its start, its calls with their outcomes, and its results.

`TapeFile` is the exported document. `read_tape` converts it for replay: numbered steps, and the outcome of
every call by method, digest of its parameters and n-th use of that pair, as in a resumed attempt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from hostler.domain.record import Record
from hostler.domain.recording import RESUMED, CallName, Resumed, is_external_call
from hostler_protocol._base import Lenient
from hostler_protocol.content import Usage
from hostler_protocol.errors import Fault, InvalidArgumentError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.results import HOST_ONLY_RESULTS
from hostler_protocol.runs import RunStatus

VERSION = 1
DELTA = "message.delta"
PAUSED = "run.paused"
MADE_BY_THE_HOST = frozenset(
    {
        "cancelled",
        "runner.timeout",
        "runner.crashed",
        "host.restarted",
        "host.error",
        "pause.failed",
        "replay.diverged",
    }
)
"""Codes of endings by the host, where the runner's own stream was cut off."""


class TapeEntry(Lenient):
    """One entry of the journal. `left_out`: size in bytes of data that was too large to be exported."""

    position: int
    kind: str
    type: str
    at: float
    attempt: int
    data: msgspec.Raw
    sequence: int | None = None
    left_out: int | None = None


class TapeRun(Lenient):
    """The recorded run. `config` is the stored configuration of its runner, without the form's defaults.

    `own_pause`: it went on from a pause of its runner's own, whose state is not in the recording.
    """

    run_id: str
    agent: str
    agent_version: int
    runner_id: str
    status: RunStatus
    created_at: float
    status_code: str | None = None
    base_attempt: int = 1
    config: dict[str, Any] = {}
    own_pause: bool = False


class TapeFile(Lenient):
    """A recorded run as one JSON document. `grant` is the run's grant."""

    format: Literal["hostler.tape"]
    version: int
    host_version: str
    run: TapeRun
    grant: msgspec.Raw
    entries: list[TapeEntry]


class TapedCall(Record):
    """A call with its outcome. `name` None: a refusal that was recorded without its parameters.

    `known` False: the tape has no outcome, since there was none yet or it was too large to be exported.
    """

    step: int
    position: int
    method: str
    name: CallName | None
    params: Any
    reply: msgspec.Raw
    error: Fault | None
    chunks: tuple[msgspec.Raw, ...] = ()
    known: bool = True
    given_up: bool = False
    """The runner stopped waiting: there is no outcome after the chunks."""


class TapedResult(Record):
    """A result of the runner, or consecutive deltas of one message."""

    step: int
    type: str
    data: Any
    usage: Any = None


class Tape(Record):
    """A run, ready to be replayed. Steps are numbered from 1 in the order of the journal."""

    run: TapeRun
    grant: msgspec.Raw
    context: AgentRunContext
    began_position: int
    """Position of the context in the journal."""
    began_at: float
    """UTC epoch seconds; the recorded deadline counts from here."""
    calls: tuple[TapedCall, ...]
    results: tuple[TapedResult, ...]
    result_positions: tuple[int, ...]
    """Position of each recorded result in the journal, before deltas were joined."""
    artifact_ids: tuple[str, ...]
    """Artifact ids made by the host, in order."""
    positions: tuple[int, ...]
    """Position in the journal of each step, or of its first entry."""
    whole: bool
    """Whether all deltas are present; retention may have dropped them."""

    @property
    def ended_by_host(self) -> bool:
        """Whether the host ended the run, so that the runner's further steps are not known."""
        return self.run.status in ("cancelled", "timeout") or self.run.status_code in MADE_BY_THE_HOST

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.calls) + len(self.results)

    def position_of(self, step: int) -> int | None:
        """Return the position of a step in the journal; None for one behind the last."""
        return self.positions[step - 1] if 0 < step <= len(self.positions) else None

    def step_at(self, position: int) -> int:
        """Return the last step up to a position in the journal; 0 before the first."""
        return bisect_right(self.positions, position)


class _Call(Lenient):
    """A `call` or `refusal` entry's data."""

    method: str = ""
    digest: str = ""
    nth: int = 0
    params: Any = None
    reply: msgspec.Raw = msgspec.Raw()
    error: Fault | None = None
    chunks: list[msgspec.Raw] = []
    given_up: bool = False


class _Result(Lenient):
    data: dict[str, Any] = {}
    usage: Usage | None = None


@dataclass(slots=True)
class _Reading:
    """Entries read so far; steps are numbered at the end."""

    calls: list[tuple[int, TapedCall]] = field(default_factory=list)
    results: list[tuple[int, TapedResult]] = field(default_factory=list)
    result_positions: list[int] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Refusals without names, by method and message."""
    repeatable: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those of earlier attempts that the current one has not repeated."""
    attempt: int = 0

    def take_call(self, entry: TapeEntry) -> None:
        """Take a call, unless it is a refused one that an attempt made again on its way to the frontier."""
        call = _call_of(entry)
        if call is None:
            return
        if call.name is None and call.error is not None:
            if entry.attempt != self.attempt:
                self.attempt, self.repeatable = entry.attempt, self.refused.copy()
            refusal = (call.method, call.error.message)
            if self.repeatable[refusal]:
                self.repeatable[refusal] -= 1
                return
            self.refused[refusal] += 1
        self.calls.append((entry.position, call))


def decode_tape(text: bytes) -> TapeFile:
    """Decode an exported run. InvalidArgumentError."""
    try:
        found = msgspec.json.decode(text, type=TapeFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"this is no exported run ({error}): make one with `hostler runs export RUN`"
        ) from None
    if found.version != VERSION:
        raise InvalidArgumentError(
            f"the run was exported in version {found.version} of the format; this hostler reads {VERSION}"
        )
    return found


def read_tape(file: TapeFile) -> Tape:
    """Convert an exported run for replay. InvalidArgumentError if it never began or was dropped."""
    run = file.run
    entries = [entry for entry in file.entries if entry.attempt >= run.base_attempt]
    began = next((entry for entry in entries if entry.kind == "context"), None)
    if began is None:
        raise InvalidArgumentError(
            f"run {run.run_id} has no recorded start: it never began, or retention has dropped its journal"
        )
    kept = _kept(entries)
    reading = _Reading()
    for entry in kept:
        if entry.kind in ("call", "refusal", "intent"):
            reading.take_call(entry)
        elif entry.kind == "result" and entry.type not in HOST_ONLY_RESULTS:
            _take_result(reading, entry)
    numbers = {position: number for number, position in enumerate(sorted(_positions(reading)), 1)}
    return Tape(
        run=run,
        grant=file.grant,
        context=_context_of(began),
        began_position=began.position,
        began_at=began.at,
        calls=tuple(_numbered(call, numbers[at]) for at, call in _once(reading.calls)),
        results=tuple(_numbered(result, numbers[at]) for at, result in reading.results),
        result_positions=tuple(reading.result_positions),
        artifact_ids=tuple(
            str(result.data.get("artifact_id"))
            for _, result in reading.results
            if result.type == "artifact.created"
        ),
        positions=tuple(numbers),
        whole=_is_whole(file.entries),
    )


def _positions(reading: _Reading) -> set[int]:
    return {at for at, _ in _once(reading.calls)} | {at for at, _ in reading.results}


def _once(calls: Sequence[tuple[int, TapedCall]]) -> Iterator[tuple[int, TapedCall]]:
    """Yield each call once, with its first outcome, or its intent if no outcome followed."""
    best: dict[Any, tuple[int, TapedCall]] = {}
    for at, call in calls:
        key = at if call.name is None else call.name
        if key not in best or (call.known and not best[key][1].known):
            best[key] = (at, call)
    yield from sorted(best.values(), key=lambda found: found[0])


_S = TypeVar("_S", TapedCall, TapedResult)


def _numbered(step: _S, number: int) -> _S:
    return replace(step, step=number)


def _kept(entries: Sequence[TapeEntry]) -> list[TapeEntry]:
    """Drop what a later attempt superseded: deltas beyond its frontier, and resumed pauses."""
    kept: list[TapeEntry] = []
    for entry in entries:
        if entry.kind == "attempt" and entry.type == RESUMED:
            frontier = msgspec.json.decode(entry.data, type=Resumed).frontier
            kept = [one for one in kept if one.type != DELTA or (one.sequence or 0) <= frontier]
        elif entry.kind == "result" and entry.type == "attempt.started":
            kept = [one for one in kept if one.type != PAUSED]
        kept.append(entry)
    return kept


def _is_whole(entries: Sequence[TapeEntry]) -> bool:
    """Whether the sequences of the results have no gap."""
    numbers = [entry.sequence for entry in entries if entry.sequence is not None]
    return all(after == before + 1 for before, after in pairwise([0, *numbers]))


def _context_of(entry: TapeEntry) -> AgentRunContext:
    if entry.left_out is not None:
        raise InvalidArgumentError(f"the run's start has {entry.left_out:,} bytes and was not exported")
    return msgspec.json.decode(entry.data, type=AgentRunContext)


def _call_of(entry: TapeEntry) -> TapedCall | None:
    """Read a call of the runner; None for an external call."""
    data = msgspec.json.decode(entry.data, type=_Call)
    if is_external_call(data.digest, data.nth):
        return None
    known = entry.left_out is None and (bytes(data.reply) != b"" or data.error is not None)
    return TapedCall(
        step=0,
        position=entry.position,
        method=data.method or entry.type,
        name=CallName(data.method, data.digest, data.nth) if data.digest else None,
        params=data.params,
        reply=data.reply,
        error=data.error,
        chunks=tuple(data.chunks),
        known=known,
        given_up=data.given_up,
    )


def _result_of(entry: TapeEntry) -> _Result:
    return msgspec.json.decode(entry.data, type=_Result)


def _take_result(reading: _Reading, entry: TapeEntry) -> None:
    found = _result_of(entry)
    usage = None if found.usage is None else msgspec.to_builtins(found.usage)
    reading.result_positions.append(entry.position)
    taken = TapedResult(0, entry.type, found.data, usage)
    if reading.results:
        at, last = reading.results[-1]
        if (joined := joined_deltas(last, taken)) is not None:
            reading.results[-1] = (at, joined)
            return
    reading.results.append((entry.position, taken))


def joined_deltas(first: TapedResult, second: TapedResult) -> TapedResult | None:
    """Join two results if both are text deltas of one message; else return None.

    How a text was split into deltas is not part of a runner's behaviour.
    """
    if first.type != DELTA or second.type != DELTA or first.usage or second.usage:
        return None
    before, after = first.data.get("chunk", {}), second.data.get("chunk", {})
    if not isinstance(before.get("content"), str) or not isinstance(after.get("content"), str):
        return None
    if {**before, "content": ""} != {**after, "content": ""}:
        return None
    chunk = {**before, "content": before["content"] + after["content"]}
    return TapedResult(first.step, DELTA, {**first.data, "chunk": chunk}, None)


# -- replay ---------------------------------------------------------------------------------------


class Player:
    """Finds the recorded outcome of each call that a replay makes. Each outcome is used once."""

    def __init__(self, tape: Tape) -> None:
        self._by_name = {call.name: call for call in tape.calls if call.name is not None}
        self._nameless = [call for call in tape.calls if call.name is None]
        self._calls = tape.calls
        self._asked: Counter[tuple[str, str]] = Counter()
        self._used: set[int] = set()

    def find(self, method: str, digest: str) -> TapedCall | None:
        """Return the outcome for the next use of this call, or None if it is not recorded."""
        self._asked[method, digest] += 1
        found = self._by_name.get(CallName(method, digest, self._asked[method, digest]))
        if found is None:
            found = next((c for c in self._nameless if c.method == method and c.step not in self._used), None)
        if found is not None:
            self._used.add(found.step)
        return found

    def unused(self, method: str | None = None) -> list[TapedCall]:
        """Return the recorded calls that were not made yet, in order."""
        return [
            call
            for call in self._calls
            if call.step not in self._used and (method is None or call.method == method)
        ]


# -- forks ----------------------------------------------------------------------------------------


class Inheritance(Record):
    """The part of its source that a fork inherits: steps up to `step`, the journal up to `until_position`."""

    step: int
    until_position: int


def inherit(tape: Tape, at: int | None) -> Inheritance:
    """Return the inheritance of a fork after step `at`; None: after the last one, 0: from the beginning.

    InvalidArgumentError for a step that the recording does not have.
    """
    step = tape.steps if at is None else at
    if not 0 <= step <= tape.steps:
        raise InvalidArgumentError(f"there is no step {step}: the recording has steps 1 to {tape.steps}")
    known = [call.position for call in tape.calls if call.step <= step]
    return Inheritance(step, max(known, default=tape.began_position))
