"""The conversation between host and plugin as a state machine, without any IO.

Bytes go in through `receive`, and typed events come out. `request`, `notify`, `reply`, `refuse` and `stream`
return the bytes to send. Refusals that the link makes by itself (an unknown method, invalid parameters) wait
in `data_to_send`: take them after every `receive`. The same code serves both sides and every transport.

The link knows which side may send what in which state (states.py), the open requests (open_requests.py), the
runs of this connection with the order and credit of their results (run_flows.py), and sizes. It knows nothing
of grants, deadlines or storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.calls import CallParams
from hostler_protocol.envelope import read_result, usual_result
from hostler_protocol.errors import (
    JSONRPC_FAULT,
    JSONRPC_INVALID_PARAMS,
    JSONRPC_INVALID_REQUEST,
    JSONRPC_METHOD_NOT_FOUND,
    CancelledCallError,
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PluginProtocolError,
)
from hostler_protocol.frames import (
    ErrorResponse,
    LineSplitter,
    Malformed,
    MessageId,
    Notification,
    Oversized,
    Request,
    Response,
    describe_oversized,
    encode,
    encode_request,
    encode_response,
    parse,
    raw,
)
from hostler_protocol.incoming import (
    Broken,
    CallCancelled,
    Called,
    CalledAhead,
    Incoming,
    Noted,
    Refused,
    Replied,
    ResultArrived,
    RunEnded,
    RunLeft,
    Warned,
)
from hostler_protocol.limits import (
    MAX_INTEGER,
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
    RunCreditNote,
    RunEndNote,
    RunParkNote,
    RunStartParams,
    Side,
    StreamNote,
    VersionRange,
)
from hostler_protocol.open_requests import OwnRequest, OwnRequests, PeerRequest, PeerRequests
from hostler_protocol.payloads import decoder, run_id_in, run_id_of, typed
from hostler_protocol.refusals import (
    UnsentRefusals,
    brief,
    encode_refusal,
    error_in,
    result_too_large,
    too_large,
    wrong_method,
)
from hostler_protocol.results import AgentRunResult
from hostler_protocol.run_flows import RunFlows
from hostler_protocol.states import AFTER_REFUSAL, AFTER_REPLY, AFTER_REQUEST, CHANGES_STATE, MAY_SEND, State


class LinkError(RuntimeError):
    """Our own side tried to send what the state does not allow: a mistake in this program."""


class LinkClosedError(LinkError):
    """The connection was closed before this could be sent. No mistake: tasks race with the closing."""


class Link:
    """One connection, seen from `side`. `limits` are the host's; a plugin learns them from `initialize`."""

    def __init__(self, side: Side, limits: Limits | None = None) -> None:
        self.side = side
        self._is_plugin = side is Side.PLUGIN
        self.limits = limits or Limits()
        self.state = State.CONNECTED
        self.foreign_messages = 0
        """Messages of the peer that named a run which is not of this connection."""
        self._lines = LineSplitter(self.limits.max_message_bytes)
        self._offered = VersionRange(min=PROTOCOL_VERSION, max=PROTOCOL_VERSION)
        self._next_id = 0
        self._own = OwnRequests()
        self._peers = PeerRequests()
        self._flows = RunFlows(side)
        self._refusals = UnsentRefusals()
        self._we_may = {state: MAY_SEND[side, state] for state in State}
        self._peer_may = {state: MAY_SEND[side.peer, state] for state in State}

    @property
    def runs(self) -> frozenset[str]:
        """The runs that are active on this connection."""
        return frozenset(self._flows.active)

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered of an unfinished message."""
        return self._lines.buffered_bytes

    def credit(self, run_id: str) -> int:
        """Return how many results may still be sent for a run; 0 for an unknown one."""
        return self._flows.credit(run_id)

    def spend_credit(self, run_id: str) -> bool:
        """Use the credit of one result (plugin side). Return False if there is none."""
        flow = self._flows.active.get(run_id)
        if flow is None or flow.credit <= 0:
            return False
        flow.credit -= 1
        return True

    def end_run(self, run_id: str) -> None:
        """Remove a run that ended, was fenced or could not be started. Its late messages are ignored.

        Its open calls can still be answered. `run/start` makes the same id active again.
        """
        self._flows.end(run_id)

    def has_ended(self, run_id: str) -> bool:
        """Whether a run was active on this connection and has ended; the oldest are forgotten."""
        return self._flows.was_active(run_id) and run_id not in self._flows.active

    def open_calls(self, run_id: str) -> list[MessageId]:
        """Return the calls of a run that wait for our answer (host side)."""
        return self._peers.of_run(run_id)

    def close(self, reason: str) -> Sequence[Incoming]:
        """Close the link: the transport is gone, or must go. Nothing is sent or received any more."""
        if self.state is State.CLOSED:
            return ()
        self.state = State.CLOSED
        self._lines = LineSplitter(0)
        self._own.clear()
        self._peers.clear()
        return (Broken(reason[:MAX_REASON_CHARS]),)

    def data_to_send(self) -> bytes:
        """Take the bytes of the refusals that the link made by itself."""
        return self._refusals.take() if self._refusals.messages else b""

    # -- sending ----------------------------------------------------------------------------------

    def request(self, method: str, params: Any) -> tuple[MessageId, bytes]:
        """Make a request. Return its id and its bytes.

        Raises PayloadTooLargeError over the negotiated size, and LinkError if the state does not allow the
        method or the run is already active on this connection.
        """
        self._check_may_send(method)
        payload = raw(params)
        start = typed(RunStartParams, params, payload) if method == "run/start" else None
        if start is not None and start.context.run_id in self._flows.active:
            raise LinkError(f"run {start.context.run_id} is already active on this connection")
        id_: MessageId = self._next_id + 1
        if self.side is Side.PLUGIN:
            id_ = f"c{id_}"
        data = self._ended(encode_request(id_, method, payload))
        self._next_id += 1
        sent = self._own.open[id_] = OwnRequest(method)
        if method in CHANGES_STATE:
            self.state = AFTER_REQUEST.get((self.state, method), self.state)
        if start is not None:
            sent.start = self._flows.begin(start.context.run_id, start.credit)
        elif method == "initialize":
            self._offered = typed(InitializeParams, params, payload).protocol
        elif self.side is Side.PLUGIN:
            sent.run_id = run_id_of(params, payload)
        return id_, data

    def notify(self, method: str, params: Any) -> bytes:
        """Make a notification.

        Raises PayloadTooLargeError over the negotiated size, except for `run/result`: the host decides what
        becomes of a run with a result that is too large.
        """
        self._check_may_send(method)
        payload = raw(params)
        frame = Notification(method, payload)
        data = encode(frame)
        data = data + b"\n" if method == "run/result" else self._ended(data)
        match method:
            case "run/credit":
                grant = typed(RunCreditNote, params, payload)
                if not 1 <= grant.results <= MAX_INTEGER:
                    raise LinkError(f"a grant of {grant.results} results; at least 1 is expected")
                self._flows.add_credit(grant.run_id, grant.results)
            case "run/park":
                self._park(typed(RunParkNote, params, payload).run_id)
            case "run/end":
                self.end_run(typed(RunEndNote, params, payload).run_id)
        return data

    def stream(self, id_: MessageId, chunk: Any) -> bytes:
        """Make one `host/stream` piece for an open request of the plugin; b'' if it was given up.

        Raises PayloadTooLargeError over the negotiated size.
        """
        open_ = self._peers.open.get(id_)
        if open_ is None:
            return b""
        data = self.notify("host/stream", StreamNote(id=id_, index=open_.pieces, chunk=raw(chunk)))
        open_.pieces += 1
        return data

    def reply(self, id_: MessageId, result: Any) -> bytes:
        """Answer a request of the peer; b'' if it was given up.

        An answer over the negotiated size is replaced by a `payload_too_large` refusal.
        """
        payload = raw(result)
        open_ = self._peers.close(id_)
        if open_ is None:
            return b""
        try:
            data = self._ended(encode_response(id_, payload))
        except PayloadTooLargeError as error:
            return self._refusal(id_, open_, error)
        if open_.method in CHANGES_STATE:
            self.state = AFTER_REPLY.get((self.state, open_.method), self.state)
        return data

    def refuse(self, id_: MessageId, error: HostlerError) -> bytes:
        """Refuse a request of the peer; b'' if it was given up."""
        open_ = self._peers.close(id_)
        return b"" if open_ is None else self._refusal(id_, open_, error)

    def abandon(self, id_: MessageId) -> None:
        """Give up a request of ours: its late answer will be dropped."""
        self._own.give_up(id_)

    def _refusal(self, id_: MessageId, open_: PeerRequest, error: HostlerError) -> bytes:
        if open_.method in CHANGES_STATE:
            self.state = AFTER_REFUSAL.get((self.state, open_.method), self.state)
        if open_.method == "run/start" and open_.run_id is not None:
            self.end_run(open_.run_id)
        return encode_refusal(id_, error, self.limits.max_message_bytes)

    def _check_may_send(self, method: str) -> None:
        if method in self._we_may[self.state]:
            return
        text = f"{self.side.value} may not send {method} while {self.state.value}"
        raise LinkClosedError(text) if self.state is State.CLOSED else LinkError(text)

    def _ended(self, data: bytes) -> bytes:
        """Return an encoded message with its line end. PayloadTooLargeError over the negotiated size."""
        if len(data) > self.limits.max_message_bytes:
            raise PayloadTooLargeError(
                f"the message has {len(data):,} bytes; at most {self.limits.max_message_bytes:,} are allowed"
            )
        return data + b"\n"

    # -- receiving --------------------------------------------------------------------------------

    def receive(self, data: bytes) -> Iterable[Incoming]:
        """Take bytes of a stream transport, cut anywhere. Iterate to the end: that does the work."""
        if self.state is State.CLOSED:
            return ()
        line = self._lines.whole_line(data)
        if line is None:
            return self._receive_lines(data)
        arrived = self._take_next_result(line)
        return self._take(line) if arrived is None else (arrived,)

    def _receive_lines(self, data: bytes) -> Iterator[Incoming]:
        for line in self._lines.feed(data):
            if (arrived := self._take_next_result(line)) is not None:
                yield arrived
                continue
            yield from self._take(line)
            if self._is_closed():
                return

    def receive_frame(self, data: bytes | str) -> Iterator[Incoming]:
        """Take one message of a transport with message boundaries. Iterate to the end."""
        if self._is_closed():
            return
        try:
            frame = data.encode() if isinstance(data, str) else data
        except UnicodeEncodeError as error:
            yield from self.close(f"not a JSON-RPC message: {error.reason}")
            return
        if len(frame) > self.limits.max_message_bytes:
            yield from self._take(describe_oversized(frame))
        elif (arrived := self._take_next_result(frame)) is not None:
            yield arrived
        else:
            yield from self._take(frame)

    def _is_closed(self) -> bool:
        return self.state is State.CLOSED

    def _take_next_result(self, line: bytes | Oversized) -> ResultArrived | None:
        """Take a result of the usual kind: of an active run, in order, within credit and size.

        Anything else changes nothing and returns None: `_take` handles it. The state needs no check: a run is
        active only in states that allow results.
        """
        if self._is_plugin or isinstance(line, Oversized):
            return None
        arrived = usual_result(line, self.limits.max_result_bytes)
        if arrived is None:
            return None
        flow = self._flows.active.get(arrived.result.run_id)
        return arrived if flow and flow.take_next(arrived.result.sequence) else None

    def _take(self, line: bytes | Oversized) -> Sequence[Incoming]:
        parsed = line if isinstance(line, Oversized) else parse(line)
        match parsed:
            case Request():
                return self._take_request(parsed)
            case Response():
                return self._take_response(parsed)
            case Notification():
                return self._take_notification(parsed)
            case ErrorResponse():
                return self._take_error(parsed)
            case Oversized():
                return self._take_oversized(parsed)
            case Malformed(reason=reason):
                return self.close(reason)

    def _take_request(self, request: Request) -> Sequence[Incoming]:
        size = memoryview(request.params).nbytes
        if (refusal := self._not_now(request, size)) is not None:
            return self._refuse(request.id, *refusal)
        try:
            params = decoder(METHODS[request.method].params).decode(request.params)
        except DECODE_ERRORS as error:
            invalid = InvalidArgumentError(brief(f"{request.method}: {error}"))
            return self._refuse(request.id, JSONRPC_INVALID_PARAMS, invalid)
        run_id: str | None = None
        if isinstance(params, CallParams):
            run_id = params.run_id
            if not self._flows.owns(run_id):
                return self._refuse_foreign(request, run_id)
        elif isinstance(params, RunStartParams):
            run_id = params.context.run_id
            if run_id in self._flows.active:
                active = ConflictError(f"run {run_id[:64]!r} is already active here")
                return self._refuse(request.id, JSONRPC_FAULT, active) or (Warned(active.message),)
            self._flows.begin(run_id, params.credit)
        elif isinstance(params, InitializeParams):
            if PROTOCOL_VERSION not in params.protocol:
                return self._refuse_versions(request, params.protocol)
            self.limits = params.limits
            self._lines.max_bytes = self.limits.max_message_bytes
        self._peers.add(request.id, PeerRequest(request.method, size, run_id))
        if request.method in CHANGES_STATE:
            self.state = AFTER_REQUEST.get((self.state, request.method), self.state)
        return (Called(request.id, request.method, params),)

    def _not_now(self, request: Request, size: int) -> tuple[int, HostlerError] | None:
        method = METHODS.get(request.method)
        if method is None or not method.is_request or method.sender is self.side:
            return JSONRPC_METHOD_NOT_FOUND, InvalidArgumentError(wrong_method(request.method, method))
        if request.method not in self._peer_may[self.state]:
            text = f"{request.method} is not allowed while {self.state.value}"
            return JSONRPC_INVALID_REQUEST, InvalidArgumentError(text)
        return self._peers.refusal(request.id, size)

    def _refuse_versions(self, request: Request, offered: VersionRange) -> Sequence[Incoming]:
        text = f"protocol versions {offered} were offered; this plugin speaks {PROTOCOL_VERSION}"
        return self._refuse(request.id, JSONRPC_FAULT, InvalidArgumentError(text)) or (Warned(text),)

    def _refuse_foreign(self, request: Request, run_id: str) -> Sequence[Incoming]:
        if self._flows.was_active(run_id):
            over: HostlerError = CancelledCallError("the run has ended, was cancelled or is paused")
        else:
            over = NotFoundError(f"run {run_id[:64]!r} is not a run of this connection")
        return self._refuse(request.id, JSONRPC_FAULT, over) or self._foreign(request.method, run_id)

    def _refuse(self, id_: MessageId, code: int, error: HostlerError) -> Sequence[Incoming]:
        """Queue a refusal. Close the link if the peer makes so many that they are not sent in time."""
        if self._refusals.add(id_, code, error):
            return ()
        return self.close(f"over {MAX_UNSENT_ANSWER_BYTES:,} bytes of refusals wait to be sent")

    def _take_notification(self, note: Notification) -> Sequence[Incoming]:
        method = METHODS.get(note.method)
        is_call = note.method.startswith("host/")  # a call without an id has got its answer ahead
        if method is None or (method.is_request and not is_call) or method.sender is self.side:
            return (Warned(f"notification ignored: {wrong_method(note.method, method)}"),)
        if note.method not in self._peer_may[self.state]:
            return (Warned(f"notification ignored: {note.method} is not allowed while {self.state.value}"),)
        try:
            if method.params is AgentRunResult:
                result, left_out = read_result(note.params)
                return self._take_result(result, memoryview(note.params).nbytes, left_out)
            params = decoder(method.params).decode(note.params)
            take = self._take_call_ahead if isinstance(params, CallParams) else self._take_note
            return take(note.method, params)
        except DECODE_ERRORS as error:
            run_id = run_id_in(note.params)
            if run_id is None or self._flows.owns(run_id):
                return (Warned(brief(f"{note.method} dropped: {error}"), run_id),)
            return self._foreign(note.method, run_id)

    def _take_call_ahead(self, method: str, params: CallParams) -> Sequence[Incoming]:
        if self._flows.owns(params.run_id):
            return (CalledAhead(params.run_id, method.removeprefix("host/"), params),)
        return self._foreign(method, params.run_id)

    def _take_note(self, method: str, params: Any) -> Sequence[Incoming]:
        match params:
            case RunEndNote(run_id=run_id):
                if self._flows.owns(run_id):
                    self.end_run(run_id)
                    return (RunEnded(run_id),)
                return (RunLeft(run_id),) if self._flows.was_active(run_id) else self._foreign(method, run_id)
            case CallCancelNote(id=id_):
                call = self._peers.close(id_)
                return () if call is None or call.run_id is None else (CallCancelled(id_, call.run_id),)
            case StreamNote():
                event = self._own.take_piece(params)
                return () if event is None else (event,)
            case RunCreditNote(run_id=run_id, results=results):
                self._flows.add_credit(run_id, results)
            case RunParkNote(run_id=run_id):
                self._park(run_id)
        return (Noted(method, params),)

    def _take_result(self, result: AgentRunResult, size: int, left_out: str | None) -> Sequence[Incoming]:
        if not self._flows.owns(result.run_id):
            return self._foreign("run/result", result.run_id)
        return self._flows.take(result, size, self.limits.max_result_bytes, left_out)

    def _take_response(self, response: Response) -> Sequence[Incoming]:
        sent = self._own.open.pop(response.id, None)
        if sent is None:
            if self._own.was_given_up(response.id):
                return ()
            return (Warned(f"an answer to {response.id!r}, which is not an open request, was dropped"),)
        try:
            result = decoder(METHODS[sent.method].reply).decode(response.result)
        except DECODE_ERRORS as error:
            invalid = PluginProtocolError(brief(f"the answer to {sent.method} is invalid: {error}"))
            if sent.method == "initialize":
                return self.close(invalid.message)
            return (Refused(response.id, sent.method, invalid),)
        if isinstance(result, InitializeReply) and result.protocol not in self._offered:
            return self.close(f"protocol version {result.protocol} was chosen of {self._offered}")
        if sent.start is not None:
            self._flows.started(sent.start)
        if sent.method in CHANGES_STATE:
            self.state = AFTER_REPLY.get((self.state, sent.method), self.state)
        return (Replied(response.id, sent.method, result),)

    def _take_error(self, response: ErrorResponse) -> Sequence[Incoming]:
        sent = None if response.id is None else self._own.open.pop(response.id, None)
        if sent is not None and response.id is not None:
            return self._refused(response.id, sent, error_in(response))
        if self._own.was_given_up(response.id):
            return ()
        return (Warned(brief(f"an error for no open request was dropped: {response.message}")),)

    def _refused(self, id_: MessageId, sent: OwnRequest, error: HostlerError) -> Sequence[Incoming]:
        if sent.method in CHANGES_STATE:
            self.state = AFTER_REFUSAL.get((self.state, sent.method), self.state)
        if sent.start is not None:
            self._flows.refused(sent.start)
        return (Refused(id_, sent.method, error),)

    def _take_oversized(self, frame: Oversized) -> Sequence[Incoming]:
        limit = self.limits.max_message_bytes
        reason = too_large(frame.size, limit)
        error = PayloadTooLargeError(reason, limit_bytes=limit)
        if frame.id is not None and frame.method is not None:
            warning = Warned(brief(f"{frame.method} refused: {reason}"))
            return self._refuse(frame.id, JSONRPC_FAULT, error) or (warning,)
        if frame.method == "run/result" and frame.run_id is not None:
            if self._flows.owns(frame.run_id):
                reason = result_too_large(frame.size, self.limits.max_result_bytes)
                return (self._flows.broken(frame.run_id, "payload_too_large", reason),)
            return self._foreign("run/result", frame.run_id)
        if frame.id is not None and (sent := self._own.open.pop(frame.id, None)) is not None:
            return self._refused(frame.id, sent, error)
        if self._own.was_given_up(frame.id):
            return ()
        return self.close(f"{reason}, and its id and run could not be read")

    def _park(self, run_id: str) -> None:
        # the calls of a parked run are never answered, so both sides forget them
        self.end_run(run_id)
        self._own.forget_run(run_id)
        self._peers.forget_run(run_id)

    def _foreign(self, method: str, run_id: str) -> Sequence[Incoming]:
        if self._flows.was_active(run_id):
            return ()
        self.foreign_messages += 1
        text = f"{method} names run {run_id[:64]!r}, which is not of this connection"
        return (Warned(text, run_id[:64], foreign=True),)
