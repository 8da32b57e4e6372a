"""Serve GET requests from a data directory without a host, by the routes of the server."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hostler.host.read_only import ReadOnlyHost
from hostler.http.auth import administrator
from hostler.http.endpoint import Endpoint, Router, endpoints_of
from hostler.http.problems import encode_problem, problem_of, status_of
from hostler.http.request import ApiRequest, decode_query, path_segment
from hostler.http.responses import is_body
from hostler.storage.sql.read_only import NeedsHostError
from hostler_protocol.errors import HostlerError

if TYPE_CHECKING:
    from hostler.http.state import AppState

MODULES: Mapping[str, tuple[str, ...]] = {
    "audit": ("audit",),
    "events": ("events",),
    "keys": ("keys",),
    "pauses": ("pauses",),
    "inbox": ("notices",),
    "runs": ("runs", "budgets"),
    "usage": ("usage",),
}
"""First segment of a path below /v1 -> the modules of `http.routes` that need only the database for it."""


class _ReadOnlyState:
    """The part of `http.state.AppState` that exists without a server. Any other raises NeedsHostError."""

    def __init__(self, host: ReadOnlyHost) -> None:
        self.host = host

    def __getattr__(self, name: str) -> Any:
        raise NeedsHostError(name)


def can_answer(path: str) -> bool:
    """Whether a GET of this path may be served without a host."""
    _, version, word, *_ = [*path.split("/"), "", ""]
    return version == "v1" and word in MODULES


async def answer(host: ReadOnlyHost, workspace: str, path: str, query: str) -> tuple[int, bytes]:
    """Serve a GET as the administrator; return status and body.

    NeedsHostError if it needs a host after all.
    """
    found = None
    for name in MODULES[path.split("/")[2]]:
        found = Router(endpoints_of(import_module(f"hostler.http.routes.{name}"))).find(path)
        if found is not None:
            break
    endpoint = None if found is None else found[0].get("GET")
    if found is None or endpoint is None:
        raise NeedsHostError(path)
    request = ApiRequest(
        state=cast("AppState", _ReadOnlyState(host)),
        scope={},
        receive=_disconnect,
        method="GET",
        path=path,
        parameters={},
        headers={},
        holder=administrator(workspace),
    )
    try:
        request.parameters = {name: path_segment(raw) for name, raw in found[1].items()}
        return endpoint.status, msgspec.json.encode(await _result(request, endpoint, query))
    except HostlerError as error:
        return status_of(error), encode_problem(problem_of(error))


async def _result(request: ApiRequest, endpoint: Endpoint, query: str) -> msgspec.Struct:
    arguments = (
        {} if endpoint.query is None else {"query": decode_query(query.encode("ascii"), endpoint.query)}
    )
    result = await endpoint.function(request, **arguments)
    if not is_body(result):  # a stream, a file, or a response with headers
        raise NeedsHostError(request.path)
    return result


async def _disconnect() -> dict[str, Any]:
    return {"type": "http.disconnect"}
