"""The half of a link that turns what we want to say into bytes."""

from __future__ import annotations

from typing import Any

from hostler_protocol.books import Books, Open, Sent
from hostler_protocol.calls import CallParams
from hostler_protocol.errors import JSONRPC_FAULT, Fault, HostlerError, PayloadTooLargeError, to_fault
from hostler_protocol.frames import Frame, MessageId, Notification, Request, Response, encode, raw
from hostler_protocol.limits import MAX_INTEGER, MAX_REASON_CHARS
from hostler_protocol.methods import (
    InitializeParams,
    RunCreditNote,
    RunEndNote,
    RunParkNote,
    RunStartParams,
    Side,
    StreamNote,
)
from hostler_protocol.payloads import fault_response, run_id_in, typed
from hostler_protocol.states import AFTER_REFUSAL, AFTER_REPLY, AFTER_REQUEST, MAY_SEND, State


class LinkError(RuntimeError):
    """Our own side tried to send what the state does not allow: a mistake in this program."""


class LinkClosedError(LinkError):
    """The connection broke or was closed before this could be said: no mistake, tasks race with it."""


class Sending(Books):
    """The half that turns what we want to say into bytes."""

    def request(self, method: str, params: Any) -> tuple[MessageId, bytes]:
        """Make a request: its id and its bytes.

        PayloadTooLargeError where it would be over the negotiated size; LinkError where the state
        does not allow it, or the run is already active on this connection.
        """
        self._check_may_send(method)
        payload = raw(params)
        start = typed(RunStartParams, params, payload) if method == "run/start" else None
        if start is not None and start.context.run_id in self._runs:
            raise LinkError(f"run {start.context.run_id} is already active on this connection")
        id_: MessageId = self._next_id + 1
        if self.side is Side.PLUGIN:
            id_ = f"c{id_}"
        data = self._encode(Request(id_, method, payload))
        self._next_id += 1
        sent = self._sent[id_] = Sent(method)
        self.state = AFTER_REQUEST.get((self.state, method), self.state)
        if start is not None:
            sent.start = self._new_flow(start)
        elif method == "initialize":
            self._offered = typed(InitializeParams, params, payload).protocol
        elif self.side is Side.PLUGIN:
            sent.run_id = params.run_id if isinstance(params, CallParams) else run_id_in(payload)
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
                if flow := self._runs.get(grant.run_id):
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
        open_ = self._open.get(id_)
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
        open_ = self._close_request(id_)
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
        open_ = self._close_request(id_)
        return b"" if open_ is None else self._refusal(id_, open_, error)

    def abandon(self, id_: MessageId) -> None:
        """Give up a request of ours: its late answer will be dropped."""
        self._give_up(id_)

    def _refusal(self, id_: MessageId, open_: Open, error: HostlerError) -> bytes:
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
        if method in MAY_SEND[self.side, self.state]:
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
