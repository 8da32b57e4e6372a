"""Events of a stream as frames: by HTTP+JSON as they are, by JSON-RPC as results of their request.

The id of a request is a placeholder in its frames, so that readers of one task share them.
"""

from __future__ import annotations

import msgspec

from hostler.http.a2a.dialect import rest_error, rpc_error
from hostler.http.a2a.fold import Binding
from hostler.http.a2a.wire import StreamEvent, encode
from hostler.http.dialects.placeholders import REQUEST_ID, Filling, as_json, filling_of
from hostler.http.problems import Problem


def _rest_event(event: StreamEvent) -> bytes:
    return b"data: %b\n\n" % encode(event)


def _rest_error(problem: Problem) -> bytes:
    return b"event: error\ndata: %b\n\n" % msgspec.json.encode(rest_error(problem), enc_hook=str)


def _rpc_event(event: StreamEvent) -> bytes:
    return b'data: {"jsonrpc":"2.0","id":%b,"result":%b}\n\n' % (REQUEST_ID.mark, encode(event))


def _rpc_error(problem: Problem) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(rpc_error(problem, REQUEST_ID), enc_hook=as_json)


HTTP_JSON_EVENTS = Binding("http+json", _rest_event, _rest_error)
RPC_EVENTS = Binding("json-rpc", _rpc_event, _rpc_error)


def filling_for(request_id: str | int) -> Filling:
    """Return what the frames of a request of JSON-RPC have in the place of its id."""
    return filling_of({REQUEST_ID: msgspec.json.encode(request_id)})
