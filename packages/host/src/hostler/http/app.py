"""The application: the route table over one host, as one ASGI callable."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hostler.console.files import ConsoleFiles
from hostler.domain.token_bucket import TokenBuckets
from hostler.host.config import ASSETS_PATH
from hostler.http import openapi, sockets
from hostler.http.api_docs import ApiDocs
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.asset_gateway.gateway import AssetGateway, has_run_token
from hostler.http.auth import KEY_ISSUER, KeyRing, find_key
from hostler.http.console_pages import serve_console
from hostler.http.cors import Cors, is_preflight, origin_of
from hostler.http.endpoint import Endpoint, Router, endpoints_of
from hostler.http.limits import MAX_RATE_BUCKETS, TOKEN_BURST, TOKEN_REQUESTS_PER_SECOND
from hostler.http.metrics import Metrics
from hostler.http.middleware import HttpExchange, respond, respond_not_found, respond_preflight
from hostler.http.open_keys import OpenKeys, find_ended
from hostler.http.proxies import TrustedProxies
from hostler.http.route_table import ROUTE_MODULES
from hostler.http.sessions import SessionRing
from hostler.http.sign_ins import SignIns
from hostler.http.state import AppState
from hostler.http.streams import Streams
from hostler.http.widget_pages import serve_widget
from hostler.version import VERSION

if TYPE_CHECKING:
    from hostler.host.host import Host

ENDPOINTS: list[Endpoint] = endpoints_of(*ROUTE_MODULES)
"""All HTTP routes of the host."""
ROUTER = Router(ENDPOINTS)
"""Finds them; it keeps nothing of a host."""


class App:
    """The ASGI application of one host. `state` is shared by its routes."""

    def __init__(self, state: AppState) -> None:
        self.state = state
        self.assets = AssetGateway(state)
        self._console = ConsoleFiles()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI `http` or `websocket` connection.

        `lifespan` is not supported: the host starts itself.
        """
        # Servers decode `path`, which turns an encoded slash into a separator; `raw_path` keeps it.
        path = scope["raw_path"].decode("ascii", "replace")
        if scope["type"] == "websocket":
            await sockets.serve(self.state, path, scope, receive, send)
            return
        found = ROUTER.find(path)
        exchange = await self._exchange(scope, receive, send, path)
        if exchange is None:
            return
        if path == ASSETS_PATH and has_run_token(scope):
            await self.assets.serve(exchange)
            return
        if found is None and (status := await serve_console(self._console, exchange)) is not None:
            self.state.metrics.count_request("console", status, 0.0)
            return
        if found is None and (status := await serve_widget(self.state.host.widgets, exchange)) is not None:
            self.state.metrics.count_request("widget", status, 0.0)
            return
        if found is None:
            await respond_not_found(self.state, exchange)
            return
        routes, exchange.parameters = found
        await respond(self.state, routes, exchange)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send, path: str) -> HttpExchange | None:
        """Return a request whose response gets the headers for pages of other origins.

        None once it is answered: a browser asked whether it may send the request.
        """
        origin, cors = origin_of(scope), self.state.cors
        allowed = None if origin is None else await cors.allowed(origin, self.state.address_of(scope))
        exchange = HttpExchange(scope, receive, cors.sending(allowed, send), path)
        if origin is None or not is_preflight(scope):
            return exchange
        await respond_preflight(self.state, exchange, lambda: cors.preflight(scope, origin, allowed))
        return None


def make_app(host: Host) -> App:
    """Build the application of a host."""
    settings = host.settings
    keys_until = host.providers.keys_until
    keys = KeyRing(
        find_key(host.db, keys_until), admin_key=settings.admin_key, workspace_id=settings.workspace
    )

    def vouches(issuer: str) -> bool:
        return issuer in (KEY_ISSUER, keys.admin_issuer) or host.providers.vouches(issuer)

    state = AppState(
        host=host,
        keys=keys,
        sessions=SessionRing(host.db, lambda: host.providers.entries, vouches=vouches, keys_until=keys_until),
        sign_ins=SignIns(host.db),
        open_keys=OpenKeys(find_ended(host.db, vouches, keys_until)),
        rates=TokenBuckets(
            settings.requests_per_second,
            settings.requests_per_second,
            clock=time.monotonic,
            max_buckets=MAX_RATE_BUCKETS,
        ),
        token_rates=TokenBuckets(
            TOKEN_REQUESTS_PER_SECOND, TOKEN_BURST, clock=time.monotonic, max_buckets=MAX_RATE_BUCKETS
        ),
        cors=Cors(
            host.db,
            lambda: host.configurator.cors,
            clock=time.monotonic,
            widgets=host.widgets.takes,
        ),
        streams=Streams(),
        metrics=Metrics(),
        docs=ApiDocs(lambda: openapi.document(ENDPOINTS, VERSION)),
        proxies=TrustedProxies(settings.trusted_proxies),
    )
    return App(state)
