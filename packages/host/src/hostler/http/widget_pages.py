"""Serves the scripts of widgets, and the pages at which they can be tried. Neither needs a key."""

from __future__ import annotations

from hostler.channels.widgets import Widgets
from hostler.console.widget import TRY_PAGE_CSP, WidgetFile, WidgetFiles
from hostler.http.asgi import Scope
from hostler.http.console_pages import METHODS, send_file
from hostler.http.middleware import HttpExchange, send_problem
from hostler.http.problems import MethodNotAllowedError
from hostler.http.responses import Empty, Headers

PREFIX = "/widget/"
SCRIPT_SECONDS = 300
"""How long browsers keep a script before they ask whether it has changed: entries change, and versions do."""
_SCRIPT_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"vary", b"accept-encoding"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"cache-control", b"public, max-age=%d" % SCRIPT_SECONDS),
]
_PAGE_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"accept-encoding, accept-language"),
    (b"content-security-policy", TRY_PAGE_CSP.encode("ascii")),
    (b"cache-control", b"no-store"),
]


async def serve_widget(widgets: Widgets, exchange: HttpExchange) -> int | None:
    """Answer with the script or the page of a widget; return the status, or None if there is none."""
    name = exchange.path.removeprefix(PREFIX)
    widget = widgets.find(name.removesuffix(".js")) if exchange.path.startswith(PREFIX) else None
    if widget is None or not (name.endswith(".js") or widget.try_page):
        return None
    scope, method = exchange.scope, exchange.scope["method"]
    if method == "OPTIONS":
        allowed = Empty(204, [(b"allow", ", ".join(METHODS).encode("ascii"))])
        return await allowed.send(scope, exchange.receive, exchange.send)
    if method not in METHODS:
        return await send_problem(MethodNotAllowedError(method, list(METHODS)), exchange)
    if not name.endswith(".js"):
        page = WidgetFiles.page(widget, "zh" if _header(scope, b"accept-language")[:2] == b"zh" else "en")
        return await send_file(page, _PAGE_HEADERS, scope, exchange.send)
    script = WidgetFiles.script(widget)
    headers = [*_SCRIPT_HEADERS, (b"etag", script.etag.encode("ascii"))]
    if _is_known(script, scope):
        return await Empty(304, headers).send(scope, exchange.receive, exchange.send)
    return await send_file(script, headers, scope, exchange.send)


def _is_known(script: WidgetFile, scope: Scope) -> bool:
    named = _header(scope, b"if-none-match").decode("latin-1").split(",")
    return any(one.strip().removeprefix("W/") == script.etag for one in named)


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")
