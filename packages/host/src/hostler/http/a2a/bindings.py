"""Events of a stream as frames: by HTTP+JSON as they are, by JSON-RPC as results of their request."""

from __future__ import annotations

import msgspec

from hostler.http.a2a.dialect import rest_error, rpc_error
from hostler.http.a2a.fold import Binding
from hostler.http.a2a.wire import StreamEvent, encode
from hostler.http.problems import Problem


def _rest_event(event: StreamEvent) -> bytes:
    return b"data: %b\n\n" % encode(event)


def _rest_error(problem: Problem) -> bytes:
    return b"event: error\ndata: %b\n\n" % msgspec.json.encode(rest_error(problem), enc_hook=str)


HTTP_JSON_EVENTS = Binding(_rest_event, _rest_error)


def rpc_events(request_id: str | int) -> Binding:
    """Return how the events of a request of JSON-RPC are framed."""
    head = b'data: {"jsonrpc":"2.0","id":%b,"result":' % msgspec.json.encode(request_id)

    def error(problem: Problem) -> bytes:
        return b"data: %b\n\n" % msgspec.json.encode(rpc_error(problem, request_id), enc_hook=str)

    return Binding(lambda event: b"%b%b}\n\n" % (head, encode(event)), error)
