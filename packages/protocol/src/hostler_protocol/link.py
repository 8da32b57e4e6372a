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
    RunFailure,
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
    params_of_result,
    parse,
    raw,
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
    MAX_INTEGER,
    MAX_OPEN_REQUEST_BYTES,
    MAX_OPEN_REQUESTS,
    MAX_REASON_CHARS,
    MAX_UNSENT_ANSWER_BYTES,
    PROTOCOL_VERSION,
    Limits,
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
    Side,
    StreamNote,
    VersionRange,
)
from hostler_protocol.open_requests import OwnRequest, OwnRequests, PeerRequest, PeerRequests
from hostler_protocol.payloads import decoder, fault_response, run_id_in, typed
from hostler_protocol.results import AgentRunResult
from hostler_protocol.run_flows import RunFlow, RunFlows
from hostler_protocol.states import AFTER_REFUSAL, AFTER_REPLY, AFTER_REQUEST, MAY_SEND, State

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

_decode_result = msgspec.json.Decoder(AgentRunResult).decode


class LinkError(RuntimeError):
    """Our own side tried to send what the state does not allow: a mistake in this program."""


class LinkClosedError(LinkError):
    """The connection broke or was closed before this could be said: no mistake, tasks race with it."""


class Link:
    """One conversation, seen from `side`; `limits` are the host's, the plugin is told in `initialize`."""

    def __init__(self, side: Side, limits: Limits | None = None) -> None:
        self.side = side
        self.limits = limits or Limits()
        self.state = State.CONNECTED
        self.foreign_messages = 0
        """Messages of the peer that named a run which is not of this connection."""
        self._lines = LineSplitter(self.limits.max_message_bytes)
        self._offered = VersionRange(min=PROTOCOL_VERSION, max=PROTOCOL_VERSION)
        self._next_id = 0
        self._own = OwnRequests()
        self._peers = PeerRequests()
        self._flows = RunFlows()
        self._we_may = {state: MAY_SEND[side, state] for state in State}
        self._peer_may = {state: MAY_SEND[side.peer, state] for state in State}
        self._out: list[bytes] = []
        self._out_bytes = 0

    @property
    def runs(self) -> frozenset[str]:
        """The runs that are active on this connection."""
        return frozenset(self._flows.active)

    @property
    def buffered_bytes(self) -> int:
        """Bytes held of a message that has not come to its end."""
        return self._lines.buffered_bytes

    def credit(self, run_id: str) -> int:
        """How many results may still be sent for a run; 0 for an unknown one."""
        flow = self._flows.active.get(run_id)
        return 0 if flow is None else flow.credit

    def spend_credit(self, run_id: str) -> bool:
        """Count one result as sent (plugin side). False: there is no credit for it."""
        flow = self._flows.active.get(run_id)
        if flow is None or flow.credit <= 0:
            return False
        flow.credit -= 1
        return True

    def end_run(self, run_id: str) -> None:
        """Forget a run: it ended, was fenced or could not be started. Late messages are ignored.

        Its open calls can still be answered. `run/start` makes the same id live again.
        """
        self._flows.end(run_id)

    def has_ended(self, run_id: str) -> bool:
        """Whether a run was active on this connection and is over; the oldest are forgotten."""
        return self._flows.was_active(run_id) and run_id not in self._flows.active

    def close(self, reason: str) -> Iterator[Incoming]:
        """The transport is gone, or must go: nothing is sent or received from here on."""
        if self.state is not State.CLOSED:
            self.state = State.CLOSED
            self._lines = LineSplitter(0)
            self._own.clear()
            self._peers.clear()
            yield Broken(reason[:MAX_REASON_CHARS])

    def data_to_send(self) -> bytes:
        """Take the bytes of answers that the link made by itself."""
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        return data

    # -- what we say ------------------------------------------------------------------------------

    def request(self, method: str, params: Any) -> tuple[MessageId, bytes]:
        """Make a request: its id and its bytes.

        PayloadTooLargeError where it would be over the negotiated size; LinkError where the state
        does not allow it, or the run is already active on this connection.
        """
        self._check_may_send(method)
        payload = raw(params)
        start = typed(RunStartParams, params, payload) if method == "run/start" else None
        if start is not None and start.context.run_id in self._flows.active:
            raise LinkError(f"run {start.context.run_id} is already active on this connection")
        id_: MessageId = self._next_id + 1
        if self.side is Side.PLUGIN:
            id_ = f"c{id_}"
        data = self._encode(Request(id_, method, payload))
        self._next_id += 1
        sent = self._own.open[id_] = OwnRequest(method)
        self.state = AFTER_REQUEST.get((self.state, method), self.state)
        if start is not None:
            sent.start = self._begin_run(start)
        elif method == "initialize":
            self._offered = typed(InitializeParams, params, payload).protocol
        elif self.side is Side.PLUGIN:
            sent.run_id = _run_id_of(params, payload)
        return id_, data

    def notify(self, method: str, params: Any) -> bytes:
        """Make a notification.

        PayloadTooLargeError where it would be over the negotiated size, but not for `run/result`: what
        a result over its size does to the run is the host's to decide.
        """
        self._check_may_send(method)
        payload = raw(params)
        frame = Notification(method, payload)
        data = encode(frame) + b"\n" if method == "run/result" else self._encode(frame)
        match method:
            case "run/credit":
                grant = typed(RunCreditNote, params, payload)
                if not 1 <= grant.results <= MAX_INTEGER:
                    raise LinkError(f"a grant of {grant.results} results; at least 1 is expected")
                if flow := self._flows.active.get(grant.run_id):
                    flow.credit += grant.results
            case "run/park":
                self._park(typed(RunParkNote, params, payload).run_id)
            case "run/end":
                self.end_run(typed(RunEndNote, params, payload).run_id)
        return data

    def stream(self, id_: MessageId, chunk: Any) -> bytes:
        """Make one `host/stream` piece for an open request of the plugin; b'' where it was given up.

        PayloadTooLargeError where the piece would be over the negotiated size.
        """
        open_ = self._peers.open.get(id_)
        if open_ is None:
            return b""
        data = self.notify("host/stream", StreamNote(id=id_, index=open_.pieces, chunk=raw(chunk)))
        open_.pieces += 1
        return data

    def reply(self, id_: MessageId, result: Any) -> bytes:
        """Answer a request of the peer; b'' where it was given up.

        An answer over the message size is replaced by a `payload_too_large` refusal.
        """
        payload = raw(result)
        open_ = self._peers.close(id_)
        if open_ is None:
            return b""
        try:
            data = self._encode(Response(id_, payload))
        except PayloadTooLargeError as error:
            return self._refusal(id_, open_, error)
        self.state = AFTER_REPLY.get((self.state, open_.method), self.state)
        return data

    def refuse(self, id_: MessageId, error: HostlerError) -> bytes:
        """Refuse a request of the peer; b'' where it was given up."""
        open_ = self._peers.close(id_)
        return b"" if open_ is None else self._refusal(id_, open_, error)

    def abandon(self, id_: MessageId) -> None:
        """Give up a request of ours: its late answer will be dropped."""
        self._own.give_up(id_)

    def _refusal(self, id_: MessageId, open_: PeerRequest, error: HostlerError) -> bytes:
        self.state = AFTER_REFUSAL.get((self.state, open_.method), self.state)
        if open_.method == "run/start" and open_.run_id is not None:
            self.end_run(open_.run_id)
        fault = to_fault(error)
        try:
            return self._encode(fault_response(id_, JSONRPC_FAULT, fault))
        except PayloadTooLargeError:
            short = Fault(
                code=fault.code, message=fault.message[:MAX_REASON_CHARS], retryable=fault.retryable
            )
            return encode(fault_response(id_, JSONRPC_FAULT, short)) + b"\n"

    def _check_may_send(self, method: str) -> None:
        if method in self._we_may[self.state]:
            return
        text = f"{self.side.value} may not send {method} while {self.state.value}"
        raise LinkClosedError(text) if self.state is State.CLOSED else LinkError(text)

    def _encode(self, frame: Frame) -> bytes:
        data = encode(frame)
        if len(data) > self.limits.max_message_bytes:
            raise PayloadTooLargeError(
                f"the message has {len(data):,} bytes; at most {self.limits.max_message_bytes:,} are allowed"
            )
        return data + b"\n"

    # -- what the peer says -----------------------------------------------------------------------

    def receive(self, data: bytes) -> Iterator[Incoming]:
        """Take bytes of a stream transport, cut in any way. Iterate to the end: it works as it is read."""
        if self._is_closed():
            return
        for line in self._lines.feed(data):
            if (arrived := self._take_plain_result(line)) is not None:
                yield arrived
                continue
            yield from self._take(line)
            if self._is_closed():
                return

    def receive_frame(self, data: bytes | str) -> Iterator[Incoming]:
        """Take one message of a transport that keeps messages apart. Iterate to the end."""
        if self._is_closed():
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

    def _is_closed(self) -> bool:
        return self.state is State.CLOSED

    def _take(self, line: bytes | Oversized) -> Iterator[Incoming]:
        parsed = line if isinstance(line, Oversized) else parse(line)
        match parsed:
            case Request():
                return self._take_request(parsed)
            case Notification():
                return self._take_notification(parsed)
            case Response():
                return self._take_response(parsed)
            case ErrorResponse():
                return self._take_error(parsed)
            case Oversized():
                return self._take_oversized(parsed)
            case Malformed(reason=reason):
                return self.close(reason)

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
        if isinstance(params, CallParams) and not self._flows.owns(params.run_id):
            yield from self._refuse_foreign(request, params.run_id)
            return
        if refused := self._cannot(params):
            yield from self._answer(request.id, JSONRPC_FAULT, refused)
            yield Warned(refused.message)
            return
        opened = PeerRequest(request.method, memoryview(request.params).nbytes)
        if isinstance(params, CallParams):
            opened.run_id = params.run_id
        elif isinstance(params, RunStartParams):
            opened.run_id = params.context.run_id
        self._peers.add(request.id, opened)
        self.state = AFTER_REQUEST.get((self.state, request.method), self.state)
        yield Called(request.id, request.method, params)

    def _not_now(self, request: Request) -> tuple[int, HostlerError] | None:
        peers = self._peers
        if request.id in peers.open:
            text = f"request id {request.id!r} is still open; ids must be unique"
            return JSONRPC_INVALID_REQUEST, InvalidArgumentError(text)
        if request.method not in self._peer_may[self.state]:
            text = f"{request.method} is not allowed while {self.state.value}"
            return JSONRPC_INVALID_REQUEST, InvalidArgumentError(text)
        size = memoryview(request.params).nbytes
        full = peers.open and peers.bytes + size > MAX_OPEN_REQUEST_BYTES
        if full or len(peers.open) >= MAX_OPEN_REQUESTS:
            text = f"{len(peers.open)} requests of {peers.bytes:,} bytes are open; wait for answers first"
            return JSONRPC_FAULT, RateLimitedError(text, 1.0)
        return None

    def _refuse_foreign(self, request: Request, run_id: str) -> Iterator[Incoming]:
        if self._flows.was_active(run_id):
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
            if params.context.run_id in self._flows.active:
                return ConflictError(f"run {params.context.run_id[:64]!r} is already active here")
            self._begin_run(params)
        return None

    # -- notifications of the peer ----------------------------------------------------------------

    def _take_notification(self, note: Notification) -> Iterator[Incoming]:
        method = METHODS.get(note.method)
        if method is None or method.is_request or method.sender is self.side:
            yield Warned(f"notification ignored: {_unknown(note.method, method)}")
            return
        if note.method not in self._peer_may[self.state]:
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
            if run_id is None or self._flows.owns(run_id):
                yield Warned(brief(f"{note.method} dropped: {error}"), run_id)
            else:
                yield from self._foreign(note.method, run_id)

    def _take_note(self, method: str, params: Any) -> Iterator[Incoming]:
        match params:
            case RunEndNote(run_id=run_id):
                if self._flows.owns(run_id):
                    self.end_run(run_id)
                    yield RunEnded(run_id)
                elif self._flows.was_active(run_id):
                    yield RunLeft(run_id)
                else:
                    yield from self._foreign(method, run_id)
            case CallCancelNote(id=id_):
                if self._peers.close(id_) is not None:
                    yield CallCancelled(id_)
            case StreamNote():
                yield from self._take_stream(params)
            case RunCreditNote(run_id=run_id, results=results):
                if flow := self._flows.active.get(run_id):
                    flow.credit += results
                yield Noted(method, params)
            case RunParkNote(run_id=run_id):
                self._park(run_id)
                yield Noted(method, params)
            case _:
                yield Noted(method, params)

    def _take_stream(self, note: StreamNote) -> Iterator[Incoming]:
        sent = self._own.open.get(note.id)
        if sent is None:
            return  # given up meanwhile
        if note.index < sent.pieces:
            yield Warned(f"piece {note.index} of the answer to {sent.method} repeated: dropped")
        elif note.index > sent.pieces:
            del self._own.open[note.id]
            lost = HostlerError(f"piece {sent.pieces} of the answer to {sent.method} never arrived")
            yield Refused(note.id, sent.method, lost)
        else:
            sent.pieces += 1
            yield StreamArrived(note.id, note.index, msgspec.Raw(bytes(note.chunk)))

    # -- answers of the peer ----------------------------------------------------------------------

    def _take_response(self, response: Response) -> Iterator[Incoming]:
        sent = self._own.open.pop(response.id, None)
        if sent is None:
            if self._own.was_given_up(response.id):
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

    def _started(self, sent: OwnRequest) -> None:
        if sent.start is not None and self._flows.active.get(sent.start.run_id) is sent.start:
            sent.start.live = True

    def _take_error(self, response: ErrorResponse) -> Iterator[Incoming]:
        sent = None if response.id is None else self._own.open.pop(response.id, None)
        if sent is None or response.id is None:
            if response.id is not None and self._own.was_given_up(response.id):
                return
            yield Warned(brief(f"an error for no open request was dropped: {response.message}"))
            return
        yield self._refused(response.id, sent, _error_of(response))

    def _refused(self, id_: MessageId, sent: OwnRequest, error: HostlerError) -> Refused:
        self.state = AFTER_REFUSAL.get((self.state, sent.method), self.state)
        if sent.start is not None and self._flows.active.get(sent.start.run_id) is sent.start:
            self.end_run(sent.start.run_id)
        return Refused(id_, sent.method, error)

    def _take_oversized(self, frame: Oversized) -> Iterator[Incoming]:
        limit = self.limits.max_message_bytes
        reason = too_large(frame.size, limit)
        if frame.id is not None and frame.method is not None:
            yield from self._refuse_oversized(frame.id, frame, reason)
        elif frame.method == "run/result" and frame.run_id is not None:
            if self._flows.owns(frame.run_id):
                yield self._break(frame.run_id, "payload_too_large", reason)
            else:
                yield from self._foreign("run/result", frame.run_id)
        elif frame.id is not None and (sent := self._own.open.pop(frame.id, None)) is not None:
            yield self._refused(frame.id, sent, PayloadTooLargeError(reason, limit_bytes=limit))
        elif frame.id is not None and self._own.was_given_up(frame.id):
            return
        else:
            yield from self.close(f"{reason}, and nothing in it tells whose it is")

    def _refuse_oversized(self, id_: MessageId, frame: Oversized, reason: str) -> Iterator[Incoming]:
        limit = self.limits.max_message_bytes
        yield from self._answer(id_, JSONRPC_FAULT, PayloadTooLargeError(reason, limit_bytes=limit))
        yield Warned(brief(f"{frame.method} refused: {reason}"))

    # -- results --------------------------------------------------------------------------------------

    def _take_plain_result(self, line: bytes | Oversized) -> ResultArrived | None:
        """Take a result as nearly all are: of a run of ours, in order, within credit and size.

        None: `_take` says what it is, and what is wrong with it. Nothing was changed.
        """
        if self.side is Side.PLUGIN or isinstance(line, Oversized):
            return None
        params = params_of_result(line)
        if params is None or len(params) > self.limits.max_result_bytes:
            return None
        try:
            result = _decode_result(params)
        except DECODE_ERRORS:
            return None
        flow = self._flows.active.get(result.run_id)  # where there is one, results may be sent in this state
        return ResultArrived(result, len(params)) if flow and flow.take_next(result.sequence) else None

    def _take_result(
        self, result: AgentRunResult, size: int, left_out: str | None = None
    ) -> Iterator[Incoming]:
        """Take a result in any order. `left_out` says what was wrong with its usage."""
        run_id = result.run_id
        flow = self._flows.active.get(run_id)
        if flow is None or not flow.live:
            yield from self._foreign("run/result", run_id)
            return
        if flow.credit <= 0:
            yield self._break(run_id, "runner.protocol", "more results were sent than the host had credited")
            return
        flow.credit -= 1
        if size > self.limits.max_result_bytes:
            yield self._break(run_id, "payload_too_large", too_large(size, self.limits.max_result_bytes))
            return
        if not 1 <= result.sequence <= MAX_INTEGER:
            reason = "a sequence starts at 1, rises by 1 and stays below 2**53"
            yield self._break(run_id, "runner.protocol", reason)
            return
        previous = flow.last
        verdict = flow.note(result.sequence)
        if verdict == "repeated":
            yield Warned(f"result {result.sequence} repeated: dropped", run_id=run_id)
            return
        if verdict is not None:
            what = "a gap" if verdict == "gap" else "a late result"
            yield Warned(f"{what}: sequence {result.sequence} after {previous}", run_id=run_id)
        if left_out is not None:
            yield Warned(brief(f"result {result.sequence}: {left_out}"), run_id=run_id)
        # `data` points into the receive buffer; copied so that a kept result does not keep the buffer
        kept = msgspec.structs.replace(result, data=msgspec.Raw(bytes(result.data)))
        yield ResultArrived(kept, size)

    def _break(self, run_id: str, code: RunFailure, reason: str) -> RunBroken:
        self.end_run(run_id)
        return RunBroken(run_id, code, reason)

    def _foreign(self, what: str, run_id: str) -> Iterator[Incoming]:
        if self._flows.was_active(run_id):
            return
        self.foreign_messages += 1
        yield Warned(
            f"{what} names run {run_id[:64]!r}, which is not of this connection", run_id[:64], foreign=True
        )

    # -- the rest ---------------------------------------------------------------------------------

    def _answer(self, id_: MessageId, code: int, error: HostlerError) -> Iterator[Incoming]:
        data = encode(fault_response(id_, code, to_fault(error))) + b"\n"
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > MAX_UNSENT_ANSWER_BYTES:
            self.data_to_send()
            yield from self.close(f"over {MAX_UNSENT_ANSWER_BYTES:,} bytes of refusals wait to be sent")

    def _begin_run(self, start: RunStartParams) -> RunFlow:
        # an earlier attempt may still be sending: the host tells the two apart by the answer to `run/start`
        return self._flows.begin(start.context.run_id, start.credit, may_overlap=self.side is Side.HOST)

    def _park(self, run_id: str) -> None:
        # the calls of a parked run are never answered, so both sides forget them
        self.end_run(run_id)
        self._own.forget_run(run_id)
        self._peers.forget_run(run_id)


def _run_id_of(params: Any, payload: msgspec.Raw) -> str | None:
    if isinstance(params, dict) and isinstance(run_id := params.get("run_id"), str):
        return run_id
    return params.run_id if isinstance(params, CallParams) else run_id_in(payload)


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


def brief(text: str) -> str:
    """Shorten what may quote the peer."""
    return text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 3] + "..."


def too_large(size: int, limit: int) -> str:
    """Say that a message is over a limit of bytes."""
    return f"a message of {size:,} bytes is over the limit of {limit:,}"
