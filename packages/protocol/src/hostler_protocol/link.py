"""The conversation between host and plugin as a state machine, without any IO.

Bytes go in through `receive`, typed events come out; `request`, `notify`, `reply`, `refuse` and
`stream` give the bytes to send. What the link answers by itself (an unknown method, bad
parameters) waits in `data_to_send`: take it after every `receive`. The same code serves both sides
and every transport.

The link knows who may say what in which state, which runs and requests belong to this connection,
the order of results, credit and sizes. It knows nothing of grants, deadlines or storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.books import Open, Sent
from hostler_protocol.calls import CallParams
from hostler_protocol.envelope import read_result
from hostler_protocol.errors import (
    JSONRPC_FAULT,
    JSONRPC_INVALID_PARAMS,
    JSONRPC_INVALID_REQUEST,
    JSONRPC_METHOD_NOT_FOUND,
    CancelledCallError,
    ConflictError,
    Fault,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PluginProtocolError,
    RateLimitedError,
    from_fault,
    to_fault,
)
from hostler_protocol.frames import (
    ErrorResponse,
    Malformed,
    MessageId,
    Notification,
    Oversized,
    Request,
    Response,
    describe_oversized,
    encode,
    parse,
)
from hostler_protocol.incoming import (
    Broken,
    CallCancelled,
    Called,
    Incoming,
    Noted,
    Refused,
    Replied,
    ResultArrived,
    RunBroken,
    RunEnded,
    RunLeft,
    StreamArrived,
    Warned,
)
from hostler_protocol.limits import (
    MAX_OPEN_REQUEST_BYTES,
    MAX_OPEN_REQUESTS,
    MAX_UNSENT_ANSWER_BYTES,
    PROTOCOL_VERSION,
)
from hostler_protocol.methods import (
    METHODS,
    CallCancelNote,
    InitializeParams,
    InitializeReply,
    Method,
    RunCreditNote,
    RunEndNote,
    RunParkNote,
    RunStartParams,
    StreamNote,
)
from hostler_protocol.payloads import decoder, fault_response, run_id_in
from hostler_protocol.results import AgentRunResult
from hostler_protocol.sending import LinkClosedError, LinkError
from hostler_protocol.states import AFTER_REFUSAL, AFTER_REPLY, AFTER_REQUEST, MAY_SEND, State
from hostler_protocol.taking import Taking, brief, too_large

__all__ = [
    "MAY_SEND",
    "Broken",
    "CallCancelled",
    "Called",
    "Incoming",
    "Link",
    "LinkClosedError",
    "LinkError",
    "Noted",
    "Refused",
    "Replied",
    "ResultArrived",
    "RunBroken",
    "RunEnded",
    "RunLeft",
    "State",
    "StreamArrived",
    "Warned",
]


class Link(Taking):
    """One conversation, seen from `side`; `limits` are the host's, the plugin is told in `initialize`."""

    def receive(self, data: bytes) -> Iterator[Incoming]:
        """Take bytes of a stream transport, cut in any way. Iterate to the end: it works as it is read."""
        if self._closed():
            return
        for line in self._lines.feed(data):
            if (arrived := self._take_plain_result(line)) is not None:
                yield arrived
                continue
            yield from self._take(line)
            if self._closed():
                return

    def receive_frame(self, data: bytes | str) -> Iterator[Incoming]:
        """Take one message of a transport that keeps messages apart. Iterate to the end."""
        if self._closed():
            return
        try:
            frame = data.encode() if isinstance(data, str) else data
        except UnicodeEncodeError as error:
            yield from self.close(f"not a JSON-RPC message: {error.reason}")
            return
        if len(frame) > self.limits.max_message_bytes:
            yield from self._take(describe_oversized(frame))
        elif (arrived := self._take_plain_result(frame)) is not None:
            yield arrived
        else:
            yield from self._take(frame)

    def _closed(self) -> bool:
        return self.state is State.CLOSED

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

    # -- requests of the peer ---------------------------------------------------------------------

    def _take_request(self, request: Request) -> Iterator[Incoming]:
        method = METHODS.get(request.method)
        if method is None or not method.is_request or method.sender is self.side:
            unknown = InvalidArgumentError(_unknown(request.method, method))
            yield from self._answer(request.id, JSONRPC_METHOD_NOT_FOUND, unknown)
            return
        if refusal := self._not_now(request):
            yield from self._answer(request.id, *refusal)
            return
        try:
            params = decoder(method.params).decode(request.params)
        except DECODE_ERRORS as error:
            invalid = InvalidArgumentError(brief(f"{request.method}: {error}"))
            yield from self._answer(request.id, JSONRPC_INVALID_PARAMS, invalid)
            return
        if isinstance(params, CallParams) and not self._owns(params.run_id):
            yield from self._refuse_foreign(request, params.run_id)
            return
        if refused := self._cannot(params):
            yield from self._answer(request.id, JSONRPC_FAULT, refused)
            yield Warned(refused.message)
            return
        open_ = Open(request.method, memoryview(request.params).nbytes)
        if isinstance(params, CallParams):
            open_.run_id = params.run_id
        elif isinstance(params, RunStartParams):
            open_.run_id = params.context.run_id
        self._open[request.id] = open_
        self._open_bytes += open_.size
        self.state = AFTER_REQUEST.get((self.state, request.method), self.state)
        yield Called(request.id, request.method, params)

    def _not_now(self, request: Request) -> tuple[int, HostlerError] | None:
        if request.id in self._open:
            text = f"request id {request.id!r} is still open; ids must be unique"
            return JSONRPC_INVALID_REQUEST, InvalidArgumentError(text)
        if request.method not in MAY_SEND[self.side.peer, self.state]:
            text = f"{request.method} is not allowed while {self.state.value}"
            return JSONRPC_INVALID_REQUEST, InvalidArgumentError(text)
        size = memoryview(request.params).nbytes
        full = self._open and self._open_bytes + size > MAX_OPEN_REQUEST_BYTES
        if full or len(self._open) >= MAX_OPEN_REQUESTS:
            text = (
                f"{len(self._open)} requests of {self._open_bytes:,} bytes are open; wait for answers first"
            )
            return JSONRPC_FAULT, RateLimitedError(text, 1.0)
        return None

    def _refuse_foreign(self, request: Request, run_id: str) -> Iterator[Incoming]:
        if run_id in self._ended:
            over: HostlerError = CancelledCallError("the run has ended, was cancelled or is paused")
        else:
            over = NotFoundError(f"run {run_id[:64]!r} is not a run of this connection")
        yield from self._answer(request.id, JSONRPC_FAULT, over)
        yield from self._foreign(request.method, run_id)

    def _cannot(self, params: Any) -> HostlerError | None:
        """Take what `initialize` and `run/start` say; give the reason where it cannot be (plugin side)."""
        if isinstance(params, InitializeParams):
            offered = params.protocol
            if not offered.min <= PROTOCOL_VERSION <= offered.max:
                return InvalidArgumentError(
                    f"protocol versions {offered.min} to {offered.max} were offered; "
                    f"this plugin speaks {PROTOCOL_VERSION}"
                )
            self.limits = params.limits
            self._lines.max_bytes = self.limits.max_message_bytes
        elif isinstance(params, RunStartParams):
            if params.context.run_id in self._runs:
                return ConflictError(f"run {params.context.run_id[:64]!r} is already active here")
            self._new_flow(params)
        return None

    # -- notifications of the peer ----------------------------------------------------------------

    def _take_notification(self, note: Notification) -> Iterator[Incoming]:
        method = METHODS.get(note.method)
        if method is None or method.is_request or method.sender is self.side:
            yield Warned(f"notification ignored: {_unknown(note.method, method)}")
            return
        if note.method not in MAY_SEND[self.side.peer, self.state]:
            yield Warned(f"notification ignored: {note.method} is not allowed while {self.state.value}")
            return
        try:
            if method.params is AgentRunResult:
                result, left_out = read_result(note.params)
                yield from self._take_result(result, memoryview(note.params).nbytes, left_out)
            else:
                yield from self._take_note(note.method, decoder(method.params).decode(note.params))
        except DECODE_ERRORS as error:
            run_id = run_id_in(note.params)
            if run_id is None or self._owns(run_id):
                yield Warned(brief(f"{note.method} dropped: {error}"), run_id)
            else:
                yield from self._foreign(note.method, run_id)

    def _take_note(self, method: str, params: Any) -> Iterator[Incoming]:
        match params:
            case RunEndNote(run_id=run_id):
                if self._owns(run_id):
                    self.end_run(run_id)
                    yield RunEnded(run_id)
                elif run_id in self._ended:
                    yield RunLeft(run_id)
                else:
                    yield from self._foreign(method, run_id)
            case CallCancelNote(id=id_):
                if self._close_request(id_) is not None:
                    yield CallCancelled(id_)
            case StreamNote():
                yield from self._take_stream(params)
            case RunCreditNote(run_id=run_id, results=results):
                if flow := self._runs.get(run_id):
                    flow.credit += results
                yield Noted(method, params)
            case RunParkNote(run_id=run_id):
                self._park(run_id)
                yield Noted(method, params)
            case _:
                yield Noted(method, params)

    def _take_stream(self, note: StreamNote) -> Iterator[Incoming]:
        sent = self._sent.get(note.id)
        if sent is None:
            return  # given up meanwhile
        if note.index < sent.pieces:
            yield Warned(f"piece {note.index} of the answer to {sent.method} repeated: dropped")
        elif note.index > sent.pieces:
            del self._sent[note.id]
            lost = HostlerError(f"piece {sent.pieces} of the answer to {sent.method} never arrived")
            yield Refused(note.id, sent.method, lost)
        else:
            sent.pieces += 1
            yield StreamArrived(note.id, note.index, msgspec.Raw(bytes(note.chunk)))

    # -- answers of the peer ----------------------------------------------------------------------

    def _take_response(self, response: Response) -> Iterator[Incoming]:
        sent = self._sent.pop(response.id, None)
        if sent is None:
            if self._was_given_up(response.id):
                return
            yield Warned(f"an answer to {response.id!r}, which is not an open request, was dropped")
            return
        try:
            result = decoder(METHODS[sent.method].reply).decode(response.result)
        except DECODE_ERRORS as error:
            invalid = PluginProtocolError(brief(f"the answer to {sent.method} is invalid: {error}"))
            if sent.method == "initialize":
                yield from self.close(invalid.message)
            else:
                yield Refused(response.id, sent.method, invalid)
            return
        if isinstance(result, InitializeReply):
            offered = self._offered
            if not offered.min <= result.protocol <= offered.max:
                reason = f"protocol version {result.protocol} was chosen of {offered.min} to {offered.max}"
                yield from self.close(reason)
                return
        self._started(sent)
        self.state = AFTER_REPLY.get((self.state, sent.method), self.state)
        yield Replied(response.id, sent.method, result)

    def _started(self, sent: Sent) -> None:
        if sent.start is not None and self._runs.get(sent.start.run_id) is sent.start:
            sent.start.live = True

    def _take_error(self, response: ErrorResponse) -> Iterator[Incoming]:
        sent = None if response.id is None else self._sent.pop(response.id, None)
        if sent is None or response.id is None:
            if response.id is not None and self._was_given_up(response.id):
                return
            yield Warned(brief(f"an error for no open request was dropped: {response.message}"))
            return
        yield self._refused(response.id, sent, _error_of(response))

    def _refused(self, id_: MessageId, sent: Sent, error: HostlerError) -> Refused:
        self.state = AFTER_REFUSAL.get((self.state, sent.method), self.state)
        if sent.start is not None and self._runs.get(sent.start.run_id) is sent.start:
            self.end_run(sent.start.run_id)
        return Refused(id_, sent.method, error)

    def _take_oversized(self, frame: Oversized) -> Iterator[Incoming]:
        limit = self.limits.max_message_bytes
        reason = too_large(frame.size, limit)
        if frame.id is not None and frame.method is not None:
            yield from self._refuse_oversized(frame.id, frame, reason)
        elif frame.method == "run/result" and frame.run_id is not None:
            if self._owns(frame.run_id):
                yield self._break(frame.run_id, "payload_too_large", reason)
            else:
                yield from self._foreign("run/result", frame.run_id)
        elif frame.id is not None and (sent := self._sent.pop(frame.id, None)) is not None:
            yield self._refused(frame.id, sent, PayloadTooLargeError(reason, limit_bytes=limit))
        elif frame.id is not None and self._was_given_up(frame.id):
            return
        else:
            yield from self.close(f"{reason}, and nothing in it tells whose it is")

    def _refuse_oversized(self, id_: MessageId, frame: Oversized, reason: str) -> Iterator[Incoming]:
        limit = self.limits.max_message_bytes
        yield from self._answer(id_, JSONRPC_FAULT, PayloadTooLargeError(reason, limit_bytes=limit))
        yield Warned(brief(f"{frame.method} refused: {reason}"))

    # -- the rest ---------------------------------------------------------------------------------

    def _answer(self, id_: MessageId, code: int, error: HostlerError) -> Iterator[Incoming]:
        data = encode(fault_response(id_, code, to_fault(error))) + b"\n"
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > MAX_UNSENT_ANSWER_BYTES:
            self.data_to_send()
            yield from self.close(f"over {MAX_UNSENT_ANSWER_BYTES:,} bytes of refusals wait to be sent")


def _error_of(response: ErrorResponse) -> HostlerError:
    if response.data is not None:
        try:
            return from_fault(decoder(Fault).decode(response.data))
        except DECODE_ERRORS:
            pass  # a foreign peer's own error data: its message still tells
    return HostlerError(brief(f"{response.message} ({response.code})"))


def _unknown(name: str, method: Method | None) -> str:
    if method is None:
        return f"unknown method {name[:100]!r}"
    kind = "request" if method.is_request else "notification"
    return f"{name} is a {kind} of the {method.sender.value}"
