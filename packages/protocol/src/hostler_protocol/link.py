"""The conversation between host and plugin as a state machine, without any IO.

Bytes go in through `receive`, typed events come out; `request`, `notify`, `reply`, `refuse` and
`stream` give the bytes to send. What the link answers by itself (an unknown method, bad
parameters) waits in `data_to_send`. The same code serves both sides and every transport.

The link knows who may say what in which state, which runs and requests belong to this connection,
the order of results, credit and sizes. It knows nothing of grants, deadlines or storage.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from hostler_protocol.calls import CALLS
from hostler_protocol.errors import (
    JSONRPC_FAULT,
    JSONRPC_INVALID_PARAMS,
    JSONRPC_INVALID_REQUEST,
    JSONRPC_METHOD_NOT_FOUND,
    Fault,
    HostlerError,
    InvalidArgumentError,
    PayloadTooLargeError,
    PluginProtocolError,
    RateLimitedError,
    from_fault,
    to_fault,
)
from hostler_protocol.frames import (
    ErrorResponse,
    Frame,
    LineSplitter,
    Malformed,
    MessageId,
    Notification,
    Oversized,
    Request,
    Response,
    describe_oversized,
    encode,
    parse,
    raw,
)
from hostler_protocol.limits import OVERSIZE_HEAD_BYTES, Limits
from hostler_protocol.methods import (
    METHODS,
    CallCancelNote,
    InitializeReply,
    Method,
    RunCreditNote,
    RunEndNote,
    RunStartParams,
    Side,
    StreamNote,
)
from hostler_protocol.results import AgentRunResult

MAX_OPEN_REQUESTS = 1024
"""Requests of one peer that may wait for their answer at once; more are refused as `rate_limited`."""
MAX_MISSING_SEQUENCES = 1024
"""Numbers skipped by a runner that are remembered, to tell a late result from a repeated one."""
REMEMBERED_ENDED_RUNS = 4096
"""Ended runs whose late messages are ignored instead of being counted as foreign."""


class State(Enum):
    """Where the conversation stands."""

    CONNECTED = "connected"
    INITIALIZING = "initializing"
    READY = "ready"
    DRAINING = "draining"
    CLOSED = "closed"


_HOST_RUNNING = frozenset({"run/cancel", "run/credit", "run/park", "host/stream", "ping"})
_PLUGIN_RUNNING = frozenset({"run/result", "run/end", "host/cancel", *(f"host/{name}" for name in CALLS)})
_NOTHING: frozenset[str] = frozenset()

MAY_SEND: dict[tuple[Side, State], frozenset[str]] = {
    (Side.HOST, State.CONNECTED): frozenset({"initialize"}),
    (Side.HOST, State.INITIALIZING): _NOTHING,
    (Side.HOST, State.READY): _HOST_RUNNING | {"runners/list", "run/start", "shutdown"},
    (Side.HOST, State.DRAINING): _HOST_RUNNING,
    (Side.HOST, State.CLOSED): _NOTHING,
    (Side.PLUGIN, State.CONNECTED): _NOTHING,
    (Side.PLUGIN, State.INITIALIZING): _NOTHING,
    (Side.PLUGIN, State.READY): _PLUGIN_RUNNING,
    (Side.PLUGIN, State.DRAINING): _PLUGIN_RUNNING,
    (Side.PLUGIN, State.CLOSED): _NOTHING,
}
"""Who may send which methods in which state. Answers to open requests are allowed until CLOSED."""

AFTER_REQUEST: dict[tuple[State, str], State] = {
    (State.CONNECTED, "initialize"): State.INITIALIZING,
    (State.READY, "shutdown"): State.DRAINING,
}
AFTER_REPLY: dict[tuple[State, str], State] = {
    (State.INITIALIZING, "initialize"): State.READY,
}


# -- what comes out of a link ---------------------------------------------------------------------


class Called(msgspec.Struct, frozen=True):
    """The peer made a request; answer it with `reply` or `refuse`."""

    id: MessageId
    method: str
    params: Any


class Noted(msgspec.Struct, frozen=True):
    """The peer sent a notification other than those below."""

    method: str
    params: Any


class ResultArrived(msgspec.Struct, frozen=True):
    """A runner's result, in its order; `size` in bytes of its JSON. The payload is still undecoded."""

    result: AgentRunResult
    size: int


class RunEnded(msgspec.Struct, frozen=True):
    """`run/end` of a run of this connection."""

    run_id: str


class RunBroken(msgspec.Struct, frozen=True):
    """A run of this connection broke the rules; the others are untouched."""

    run_id: str
    code: str
    reason: str


class CallCancelled(msgspec.Struct, frozen=True):
    """The runner gave up waiting for this open request."""

    id: MessageId


class StreamArrived(msgspec.Struct, frozen=True):
    """A piece of a streaming answer (plugin side)."""

    id: MessageId
    index: int
    chunk: msgspec.Raw


class Replied(msgspec.Struct, frozen=True):
    """The answer to a request of ours."""

    id: MessageId
    method: str
    result: Any


class Refused(msgspec.Struct, frozen=True):
    """A request of ours was refused."""

    id: MessageId
    method: str
    error: HostlerError


class Warned(msgspec.Struct, frozen=True):
    """Something was dropped. `foreign` is True where the peer reached for a run that is not its own."""

    reason: str
    run_id: str | None = None
    foreign: bool = False


class Broken(msgspec.Struct, frozen=True):
    """The connection is of no more use; it is CLOSED and nothing further comes out."""

    reason: str


Incoming = (
    Called
    | Noted
    | ResultArrived
    | RunEnded
    | RunBroken
    | CallCancelled
    | StreamArrived
    | Replied
    | Refused
    | Warned
    | Broken
)


class LinkError(RuntimeError):
    """Our own side tried to send what the state does not allow: a mistake in this program."""


class _RunFlow:
    """Order and credit of one run's results."""

    __slots__ = ("credit", "last", "missing")

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.last = 0
        self.missing: set[int] = set()

    def note(self, sequence: int) -> str | None:
        """Take a sequence number. 'repeated' means drop; 'gap' and 'late' mean warn; None: in order."""
        if sequence == self.last + 1:
            self.last = sequence
            return None
        if sequence > self.last:
            room = MAX_MISSING_SEQUENCES - len(self.missing)
            skipped = range(self.last + 1, sequence)
            self.missing.update(skipped[-room:] if room else ())
            self.last = sequence
            return "gap"
        if sequence in self.missing:
            self.missing.discard(sequence)
            return "late"
        return "repeated"


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


class Link:
    """One conversation, seen from `side`."""

    def __init__(self, side: Side, limits: Limits | None = None) -> None:
        self.side = side
        self.limits = limits or Limits()
        self.state = State.CONNECTED
        self.foreign_messages = 0
        """Messages of the peer that named a run which is not this connection's."""
        self._lines = LineSplitter(self.limits.max_message_bytes)
        self._next_id = 0
        self._sent: dict[MessageId, str] = {}  # our open requests: id -> method
        self._open: dict[MessageId, int] = {}  # the peer's open requests: id -> stream chunks sent
        self._runs: dict[str, _RunFlow] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._out: list[bytes] = []

    # -- sending ----------------------------------------------------------------------------------

    def request(self, method: str, params: Any) -> tuple[MessageId, bytes]:
        """Make a request: its id and its bytes.

        PayloadTooLargeError where it would be over the negotiated size; LinkError where the state
        does not allow it.
        """
        self._check_may_send(method)
        prefix = "c" if self.side is Side.PLUGIN else ""
        id_: MessageId = f"{prefix}{self._next_id + 1}" if prefix else self._next_id + 1
        data = self._encode(Request(id_, method, raw(params)))
        self._next_id += 1
        self._sent[id_] = method
        self.state = AFTER_REQUEST.get((self.state, method), self.state)
        if isinstance(params, RunStartParams):
            self._runs[params.context.run_id] = _RunFlow(params.credit)
        return id_, data

    def notify(self, method: str, params: Any) -> bytes:
        """Make a notification."""
        self._check_may_send(method)
        if isinstance(params, RunCreditNote) and (flow := self._runs.get(params.run_id)):
            flow.credit += params.results
        return self._encode(Notification(method, raw(params)))

    def stream(self, id_: MessageId, chunk: Any) -> bytes:
        """Make one `host/stream` piece for an open request of the plugin; b'' where it was given up."""
        index = self._open.get(id_)
        if index is None:
            return b""
        data = self.notify("host/stream", StreamNote(id=id_, index=index, chunk=raw(chunk)))
        self._open[id_] = index + 1
        return data

    def reply(self, id_: MessageId, result: Any) -> bytes:
        """Answer a request of the peer; b'' where it was given up.

        An answer over the message size is replaced by a `payload_too_large` refusal.
        """
        if self._open.pop(id_, None) is None:
            return b""
        if self.side is Side.PLUGIN and isinstance(result, InitializeReply):
            self.state = AFTER_REPLY.get((self.state, "initialize"), self.state)
        try:
            return self._encode(Response(id_, raw(result)))
        except PayloadTooLargeError as error:
            return self._encode(_fault_response(id_, JSONRPC_FAULT, to_fault(error)))

    def refuse(self, id_: MessageId, error: HostlerError) -> bytes:
        """Refuse a request of the peer; b'' where it was given up."""
        if self._open.pop(id_, None) is None:
            return b""
        return self._encode(_fault_response(id_, JSONRPC_FAULT, to_fault(error)))

    def abandon(self, id_: MessageId) -> None:
        """Forget a request of ours: its late answer will be dropped."""
        self._sent.pop(id_, None)

    def end_run(self, run_id: str) -> None:
        """Forget a run: it ended, was fenced or could not be started. Late messages are ignored."""
        if self._runs.pop(run_id, None) is not None:
            self._ended[run_id] = None
            while len(self._ended) > REMEMBERED_ENDED_RUNS:
                self._ended.popitem(last=False)

    def resume_run(self, run_id: str) -> None:
        """Let an ended run id be used again on this connection (another attempt)."""
        self._ended.pop(run_id, None)

    def data_to_send(self) -> bytes:
        """Take the bytes of answers that the link made by itself."""
        if not self._out:
            return b""
        data = b"".join(self._out)
        self._out.clear()
        return data

    @property
    def runs(self) -> frozenset[str]:
        """The runs that are active on this connection."""
        return frozenset(self._runs)

    def credit(self, run_id: str) -> int:
        """How many results may still be sent for a run; 0 for an unknown one."""
        flow = self._runs.get(run_id)
        return 0 if flow is None else flow.credit

    def spend_credit(self, run_id: str) -> None:
        """Count one result as sent (plugin side)."""
        if flow := self._runs.get(run_id):
            flow.credit -= 1

    def _closed(self) -> bool:
        return self.state is State.CLOSED

    def _check_may_send(self, method: str) -> None:
        if method not in MAY_SEND[self.side, self.state]:
            raise LinkError(f"{self.side.value} may not send {method} while {self.state.value}")

    def _encode(self, frame: Frame) -> bytes:
        data = encode(frame)
        if len(data) > self.limits.max_message_bytes:
            raise PayloadTooLargeError(
                f"the message has {len(data):,} bytes; at most {self.limits.max_message_bytes:,} are allowed"
            )
        return data + b"\n"

    # -- receiving --------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Iterator[Incoming]:
        """Take bytes of a stream transport, cut in any way."""
        if self._closed():
            return
        for line in self._lines.feed(data):
            yield from self._take(line)
            if self._closed():
                return

    def receive_frame(self, data: bytes | str) -> Iterator[Incoming]:
        """Take one message of a transport that keeps messages apart."""
        if self.state is State.CLOSED:
            return
        frame = data.encode() if isinstance(data, str) else data
        if len(frame) > self.limits.max_message_bytes:
            yield from self._take(describe_oversized(frame[:OVERSIZE_HEAD_BYTES], len(frame)))
        else:
            yield from self._take(frame)

    def close(self, reason: str) -> Iterator[Incoming]:
        """The transport is gone, or must go."""
        if self.state is not State.CLOSED:
            self.state = State.CLOSED
            yield Broken(reason)

    def _take(self, line: bytes | Oversized) -> Iterator[Incoming]:
        parsed = line if isinstance(line, Oversized) else parse(line)
        match parsed:
            case Request():
                yield from self._take_request(parsed)
            case Notification():
                yield from self._take_notification(parsed)
            case Response():
                yield from self._take_response(parsed)
            case ErrorResponse():
                yield from self._take_error(parsed)
            case Oversized():
                yield from self._take_oversized(parsed)
            case Malformed(reason=reason):
                yield from self.close(reason)

    def _take_request(self, request: Request) -> Iterator[Incoming]:
        method = METHODS.get(request.method)
        if method is None or not method.is_request or method.sender is self.side:
            self._answer(
                request.id, JSONRPC_METHOD_NOT_FOUND, InvalidArgumentError(_unknown(request.method, method))
            )
            return
        if request.id in self._open:
            error = InvalidArgumentError(f"request id {request.id!r} is still open; ids must be unique")
            self._answer(request.id, JSONRPC_INVALID_REQUEST, error)
            return
        if request.method not in MAY_SEND[self.side.peer, self.state]:
            error = InvalidArgumentError(f"{request.method} is not allowed while {self.state.value}")
            self._answer(request.id, JSONRPC_INVALID_REQUEST, error)
            return
        if len(self._open) >= MAX_OPEN_REQUESTS:
            busy = RateLimitedError(f"{MAX_OPEN_REQUESTS} requests are open; wait for answers first", 1.0)
            self._answer(request.id, JSONRPC_FAULT, busy)
            return
        try:
            params = _decoder(method.params).decode(request.params)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            invalid = InvalidArgumentError(f"{request.method}: {error}")
            self._answer(request.id, JSONRPC_INVALID_PARAMS, invalid)
            return
        self._open[request.id] = 0
        self.state = AFTER_REQUEST.get((self.state, request.method), self.state)
        if isinstance(params, RunStartParams):
            self._runs[params.context.run_id] = _RunFlow(params.credit)
        yield Called(request.id, request.method, params)

    def _take_notification(self, note: Notification) -> Iterator[Incoming]:
        method = METHODS.get(note.method)
        if method is None or method.is_request or method.sender is self.side:
            yield Warned(f"notification ignored: {_unknown(note.method, method)}")
            return
        if note.method not in MAY_SEND[self.side.peer, self.state]:
            yield Warned(f"notification ignored: {note.method} is not allowed while {self.state.value}")
            return
        try:
            params = _decoder(method.params).decode(note.params)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield Warned(f"{note.method} dropped: {error}", run_id=_run_id_in(note.params))
            return
        if isinstance(params, AgentRunResult):
            yield from self._take_result(params, len(bytes(note.params)))
        else:
            yield from self._take_note(note.method, params)

    def _take_note(self, method: str, params: Any) -> Iterator[Incoming]:
        match params:
            case RunEndNote(run_id=run_id):
                if self._owns(run_id):
                    yield RunEnded(run_id)
                else:
                    yield from self._foreign(method, run_id)
            case CallCancelNote(id=id_):
                if self._open.pop(id_, None) is not None:
                    yield CallCancelled(id_)
            case StreamNote(id=stream_id, index=index, chunk=chunk):
                if stream_id in self._sent:
                    yield StreamArrived(stream_id, index, msgspec.Raw(bytes(chunk)))
            case RunCreditNote(run_id=run_id, results=results):
                if results > 0 and (flow := self._runs.get(run_id)):
                    flow.credit += results
                yield Noted(method, params)
            case _:
                yield Noted(method, params)

    def _take_result(self, result: AgentRunResult, size: int) -> Iterator[Incoming]:
        run_id = result.run_id
        flow = self._runs.get(run_id)
        if flow is None:
            yield from self._foreign("run/result", run_id)
            return
        if flow.credit <= 0:
            yield self._break(run_id, "runner.protocol", "more results were sent than the host had credited")
            return
        flow.credit -= 1
        if size > self.limits.max_result_bytes:
            yield self._break(run_id, "payload_too_large", _too_large(size, self.limits.max_result_bytes))
            return
        if result.sequence < 1:
            yield self._break(run_id, "runner.protocol", f"sequence {result.sequence}: it starts at 1")
            return
        previous = flow.last
        verdict = flow.note(result.sequence)
        if verdict == "repeated":
            yield Warned(f"result {result.sequence} repeated: dropped", run_id=run_id)
            return
        if verdict is not None:
            what = "a gap" if verdict == "gap" else "a late result"
            yield Warned(f"{what}: sequence {result.sequence} after {previous}", run_id=run_id)
        # `data` points into the receive buffer; copied so that a kept result does not keep the buffer
        kept = msgspec.structs.replace(result, data=msgspec.Raw(bytes(result.data)))
        yield ResultArrived(kept, size)

    def _take_response(self, response: Response) -> Iterator[Incoming]:
        name = self._sent.pop(response.id, None)
        if name is None:
            yield Warned(f"an answer to {response.id!r}, which is not an open request, was dropped")
            return
        try:
            result = _decoder(METHODS[name].reply).decode(response.result)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            invalid = PluginProtocolError(f"the answer to {name} is invalid: {error}")
            if name == "initialize":
                yield from self.close(invalid.message)
            else:
                yield Refused(response.id, name, invalid)
            return
        self.state = AFTER_REPLY.get((self.state, name), self.state)
        yield Replied(response.id, name, result)

    def _take_error(self, response: ErrorResponse) -> Iterator[Incoming]:
        name = None if response.id is None else self._sent.pop(response.id, None)
        if name is None or response.id is None:
            yield Warned(f"an error for no open request was dropped: {response.message[:200]}")
            return
        yield Refused(response.id, name, _error_of(response))

    def _take_oversized(self, frame: Oversized) -> Iterator[Incoming]:
        limit = self.limits.max_message_bytes
        reason = _too_large(frame.size, limit)
        if frame.id is not None and frame.method is not None:
            self._answer(frame.id, JSONRPC_FAULT, PayloadTooLargeError(reason, limit_bytes=limit))
            yield Warned(f"{frame.method} refused: {reason}", run_id=frame.run_id)
        elif frame.method == "run/result" and frame.run_id is not None:
            if self._owns(frame.run_id):
                yield self._break(frame.run_id, "payload_too_large", reason)
            else:
                yield from self._foreign("run/result", frame.run_id)
        else:
            yield from self.close(f"{reason}, and its beginning does not tell whose it is")

    def _owns(self, run_id: str) -> bool:
        return run_id in self._runs

    def _break(self, run_id: str, code: str, reason: str) -> RunBroken:
        self.end_run(run_id)
        return RunBroken(run_id, code, reason)

    def _foreign(self, what: str, run_id: str) -> Iterator[Incoming]:
        if run_id in self._ended:
            return
        self.foreign_messages += 1
        yield Warned(
            f"{what} names run {run_id[:64]!r}, which is not of this connection", run_id, foreign=True
        )

    def _answer(self, id_: MessageId, code: int, error: HostlerError) -> None:
        self._out.append(self._encode(_fault_response(id_, code, to_fault(error))))


def _fault_response(id_: MessageId, code: int, fault: Fault) -> ErrorResponse:
    return ErrorResponse(id_, code, fault.message, raw(fault))


def _error_of(response: ErrorResponse) -> HostlerError:
    if response.data is not None:
        try:
            return from_fault(msgspec.json.decode(response.data, type=Fault))
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # a foreign peer's own error data: its message still tells
    return HostlerError(f"{response.message} ({response.code})")


def _unknown(name: str, method: Method | None) -> str:
    if method is None:
        return f"unknown method {name[:100]!r}"
    kind = "request" if method.is_request else "notification"
    return f"{name} is a {kind} of the {method.sender.value}"


def _too_large(size: int, limit: int) -> str:
    return f"a message of {size:,} bytes is over the limit of {limit:,}"


class _RunIdOnly(msgspec.Struct):
    run_id: str | None = None


def _run_id_in(params: msgspec.Raw) -> str | None:
    try:
        only: _RunIdOnly = _decoder(_RunIdOnly).decode(params)
        return only.run_id
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
