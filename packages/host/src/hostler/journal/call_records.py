"""The journal entries of calls: how calls are identified, their intents and their outcomes.

An `intent` announces a call with an effect outside the host, and is durable before the call is made. A `call`
has the outcome of one; a `refusal` is the outcome of a call that the gate refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec

from hostler.domain.call_checks import CallCheck
from hostler.domain.recording import CallName
from hostler_protocol.calls import CALLS, CallParams, ModelChunk, ModelDelta
from hostler_protocol.content import Usage
from hostler_protocol.errors import Fault, HostlerError, to_fault
from hostler_protocol.ids import digest
from hostler_protocol.limits import KIB

MAX_NAMED_CHARS = 200
"""Of what a refused call named."""
MAX_SHOWN_BYTES = 8 * KIB
"""In an entry that would be too large, a longer parameter is replaced by its digest."""

_NAMES = {
    **{method: "scope" for method in CALLS if method.startswith("state.")},
    **{method: "area" for method in CALLS if method.startswith("storage.")},
    "history.page": "conversation_id",
    "event.get": "event_id",
    "artifact.metadata": "artifact_id",
    "artifact.read": "artifact_id",
    "run.create": "agent",
    "action.request": "action",
}
"""Method -> the parameter that names what the call is about, where that is no resource of the grant."""
_encoder = msgspec.json.Encoder()


class Reserved(msgspec.Struct, omit_defaults=True):
    """What was reserved for a call of a model: tokens, cost, and of the tokens those of the output."""

    tokens: int
    cost: Decimal
    output_tokens: int


class CallEntry(msgspec.Struct, omit_defaults=True):
    """Data of a `call` or `refusal` entry. `chunks`: texts of a model, or whole chunks. `ms`: milliseconds.

    `effect`: the effect class of the tool. `size_bytes`: set if the whole entry is in a blob; `usage` is then
    copied from its reply. `cost`: of a model's reply. `given_up`: the runner did not wait for the end.
    `check`: the check that refused it. `resource`: what a refused or a large call named. `inherited`: it was
    answered from the recording of the run that this one was forked from. `reserved`: what was reserved for it
    in the run's budgets. `late`: its runner had been answered before, at the run's deadline, and this is what
    came of the tool after that.
    """

    method: str
    digest: str = ""
    nth: int = 0
    params: Any = None
    ms: float | None = None
    chunks: list[Any] = []
    reply: Any = msgspec.UNSET
    error: Fault | None = None
    effect: str | None = None
    size_bytes: int | None = None
    usage: Usage | None = None
    cost: Decimal | None = None
    given_up: bool = False
    check: CallCheck | None = None
    resource: str | None = None
    inherited: bool = False
    reserved: Reserved | None = None
    late: bool = False


class RecordedAnswer(msgspec.Struct):
    """The recorded answer of a call."""

    chunks: list[Any] = []
    reply: msgspec.Raw = msgspec.Raw(b"null")
    error: Fault | None = None
    given_up: bool = False
    params: msgspec.Raw = msgspec.Raw(b"null")


class _Alone(msgspec.Struct):
    alone: bool = False


class CallHead(msgspec.Struct):
    """The fields of a `call`, `intent` or `refusal` entry that identify the call."""

    method: str
    digest: str = ""
    nth: int = 0
    error: Any = None
    effect: str | None = None
    late: bool = False
    params: _Alone | None = None

    @property
    def name(self) -> CallName:
        """The call."""
        return CallName(self.method, self.digest, self.nth)

    @property
    def alone(self) -> bool:
        """Whether the runner waited for no other answer when it made the call."""
        return self.params is not None and self.params.alone


class Intent(msgspec.Struct, omit_defaults=True, frozen=True):
    """Data of an `intent` entry.

    `arguments`: the tool's arguments, if a person edited those of the runner. `resolution`: how often a
    person said that the call did not happen. `child_run_id`: the run that `run.create` has created already.
    `approved_by`: who approved it; `similar_id`: the approval for similar calls by which.
    """

    method: str
    digest: str
    nth: int
    call_id: str
    params: Any = None
    tool_name: str | None = None
    effect: str | None = None
    effect_key: str | None = None
    arguments: dict[str, Any] | None = None
    resolution: int = 0
    pause_id: str | None = None
    child_run_id: str | None = None
    approved_by: str | None = None
    similar_id: str | None = None

    @property
    def name(self) -> CallName:
        """The call."""
        return CallName(self.method, self.digest, self.nth)


class JournalledError(HostlerError):
    """A refusal that is in the journal already."""

    def __init__(self, error: HostlerError) -> None:
        super().__init__(error.message)
        self.error = error


_intents = msgspec.json.Decoder(Intent)
_heads = msgspec.json.Decoder(CallHead)
_answers = msgspec.json.Decoder(RecordedAnswer)


def refusal_entry(name: CallName, params: CallParams, error: HostlerError, check: CallCheck) -> CallEntry:
    """Return the entry of a call that the gate refused at `check`, with what it named, cut to a line."""
    named = named_by(name.method, fields_of(params))
    return CallEntry(name.method, name.digest, name.nth, error=to_fault(error), check=check, resource=named)


def named_by(method: str, params: Mapping[str, Any]) -> str | None:
    """Return what a call with these parameters is about, cut to a line: a model or a scope, for example."""
    call = CALLS.get(method)
    field = _NAMES.get(method) if call is None or call.resource is None else call.resource
    named = None if field is None else params.get(field)
    return named[:MAX_NAMED_CHARS] if isinstance(named, str) else None


def effect_key_of(run_id: str, call_id: str, arguments: Any, resolution: int) -> str:
    """Return the key under which a tool knows a call: stable across attempts, unique per call."""
    return digest({"run": run_id, "call": call_id, "arguments": arguments, "resolution": resolution})


def fields_of(params: CallParams) -> dict[str, Any]:
    """Return the parameters by name."""
    return {name: getattr(params, name) for name in params.__struct_fields__}


def abridged(params: CallParams) -> dict[str, Any]:
    """Return the parameters by name, each large one replaced by its size and SHA-256."""
    kept: dict[str, Any] = {}
    for name, value in fields_of(params).items():
        encoded = _encoder.encode(value)
        large = len(encoded) > MAX_SHOWN_BYTES
        kept[name] = {"size_bytes": len(encoded), "sha256": sha256(encoded).hexdigest()} if large else value
    return kept


def chunk_record(chunk: Any) -> Any:
    """Return a chunk as stored in the journal. One with only text, as nearly all are, is stored as text."""
    if isinstance(chunk, ModelChunk):
        delta = chunk.delta
        if isinstance(delta.content, str) and delta.reasoning is None and not delta.tool_calls:
            return delta.content
    return chunk


def chunk_of(recorded: Any) -> Any:
    """Return a chunk for the runner from its stored form."""
    return ModelChunk(delta=ModelDelta(content=recorded)) if isinstance(recorded, str) else recorded


def head_of(data: str) -> CallHead:
    """Read which call an entry is about."""
    return _heads.decode(data)


def intent_of(data: str) -> Intent:
    """Read an `intent` entry."""
    return _intents.decode(data)


class _Used(msgspec.Struct):
    usage: Usage | None = None


class _Answered(msgspec.Struct):
    reply: _Used | None = None
    usage: Usage | None = None
    cost: Decimal | None = None


_answered = msgspec.json.Decoder(_Answered)


def used_by(data: str) -> tuple[Usage | None, Decimal | None]:
    """Return usage and cost of a model, as recorded in a `call` entry."""
    answered = _answered.decode(data)
    return answered.usage if answered.reply is None else answered.reply.usage, answered.cost


def answer_of(data: str | bytes) -> RecordedAnswer:
    """Read the answer in a `call` or `refusal` entry."""
    return _answers.decode(data)
