"""The application: the route table over one host, as one ASGI callable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.host.config import ASSETS_PATH
from hostler.http import plugin_socket
from hostler.http.api_docs import ApiDocs
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.asset_gateway.gateway import AssetGateway
from hostler.http.auth import KeyRing
from hostler.http.endpoint import Endpoint, endpoints_of
from hostler.http.keyring import find_key
from hostler.http.metrics import Metrics
from hostler.http.middleware import Exchange, answer, answer_missing
from hostler.http.rate_limits import Rates
from hostler.http.route_table import ROUTE_MODULES
from hostler.http.routing import Router
from hostler.http.state import AppState
from hostler.http.streams import Streams
from hostler.version import VERSION

if TYPE_CHECKING:
    from hostler.host.host import Host

ENDPOINTS: list[Endpoint] = endpoints_of(*ROUTE_MODULES)
"""Every HTTP route there is."""


class App:
    """The ASGI application of one host. `state` holds what its routes share."""

    def __init__(self, state: AppState, endpoints: list[Endpoint]) -> None:
        self.state = state
        self.assets = AssetGateway(state)
        self._router = Router(endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface, for `http` and `websocket`; there is no lifespan: the host has its own."""
        # The path as it came; servers decode `path`, after which an encoded slash is lost.
        path = scope["raw_path"].decode("ascii", "replace")
        if scope["type"] == "websocket":
            await plugin_socket.serve(self.state, path, scope, receive, send)
            return
        found = self._router.find(path)
        exchange = Exchange(scope, receive, send, path)
        if path == ASSETS_PATH:
            await self.assets.serve(exchange)
            return
        if found is None:
            await answer_missing(self.state, exchange)
            return
        routes, exchange.parameters = found
        await answer(self.state, routes, exchange)


def make_app(host: Host) -> App:
    """Build the application of a host."""
    settings = host.settings
    state = AppState(
        host=host,
        keys=KeyRing(find_key(host.db), admin_key=settings.admin_key, workspace_id=settings.workspace),
        rates=Rates(settings.requests_per_second, settings.requests_per_second),
        streams=Streams(),
        metrics=Metrics(),
        docs=ApiDocs(ENDPOINTS, VERSION),
    )
    return App(state, ENDPOINTS)
