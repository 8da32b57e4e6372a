"""The application: the route table over one host."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import ASGIRouteHandler

from hostler.http import docs_page, openapi, plugin_socket
from hostler.http.answers import COMMON_HEADERS
from hostler.http.asgi import Asgi, Receive, Scope, Send
from hostler.http.auth import KeyRing
from hostler.http.endpoint import Endpoint, endpoints_of
from hostler.http.gateway import answer
from hostler.http.keyring import find_key
from hostler.http.metrics import Metrics
from hostler.http.problems import PROBLEM_TYPE, encode_problem, problem_of
from hostler.http.rates import Rates
from hostler.http.routes import ROUTE_MODULES
from hostler.http.streams import Streams
from hostler.http.surface import Surface
from hostler_protocol.errors import HostError, HostlerError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from hostler.host import Host

ENDPOINTS: list[Endpoint] = endpoints_of(*ROUTE_MODULES)
"""Every HTTP route there is."""


class App(Litestar):
    """Routes by the path as it came: an id may hold an encoded slash."""

    surface: Surface

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI interface."""
        if scope["type"] != "lifespan" and (raw := scope.get("raw_path")):
            scope["path"] = raw.decode("ascii", "replace")
        await super().__call__(scope, receive, send)


def make_app(host: Host) -> App:
    """The ASGI application of a host."""
    settings = host.settings
    document = openapi.document(ENDPOINTS, version("hostler"))
    surface = Surface(
        host=host,
        keys=KeyRing(find_key(host.db), admin_key=settings.admin_key, workspace_id=settings.workspace),
        rates=Rates(settings.requests_per_second, settings.requests_per_second),
        streams=Streams(),
        metrics=Metrics(),
        document_json=msgspec.json.encode(document),
        docs_html=docs_page.render(document).encode(),
    )
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.match_pattern(), {})[endpoint.method] = endpoint
    handlers = [_handler(path, _routes(surface, routes)) for path, routes in by_path.items()]
    handlers.append(_handler("/v1/plugins/connect", plugin_socket.connect(surface)))
    app = App(
        route_handlers=handlers,
        exception_handlers={Exception: _unrouted},
        openapi_config=None,
        logging_config=None,
    )
    app.surface = surface
    return app


def _handler(path: str, run: Asgi) -> ASGIRouteHandler:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await run(scope, receive, send)

    return ASGIRouteHandler(path, copy_scope=False)(serve)


def _routes(surface: Surface, routes: dict[str, Endpoint]) -> Asgi:
    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await plugin_socket.refuse(receive, send, "this address speaks no WebSocket")
            return
        await answer(surface, routes, scope, receive, send)

    return run


def _unrouted(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """What Litestar itself refuses: no such path, a Host header that cannot be."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem: HostlerError
    if status == 404:
        problem = NotFoundError(f"there is no {request.scope['path']}; /docs lists what there is")
    elif status < 500 and isinstance(error, HTTPException):
        problem = InvalidArgumentError(error.detail)
    else:
        problem = HostError("the host failed to answer this; its log has the details")
    document = problem_of(problem)
    return Response(
        encode_problem(document),
        status_code=document.status,
        media_type=PROBLEM_TYPE,
        headers={name.decode(): value.decode() for name, value in COMMON_HEADERS},
    )
