"""Serves the console: its files, and one HTML file at the address of each page. Neither needs a key."""

from __future__ import annotations

from hostler.console.files import CONTENT_SECURITY_POLICY, ConsoleFile, ConsoleFiles
from hostler.http.asgi import Scope, Send
from hostler.http.middleware import HttpExchange, send_problem
from hostler.http.problems import MethodNotAllowedError
from hostler.http.responses import Empty, Headers

METHODS = ("GET", "HEAD", "OPTIONS")
_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"vary", b"accept-encoding"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_FILE_HEADERS: Headers = [(b"cache-control", b"public, max-age=31536000, immutable")]
_PAGE_HEADERS: Headers = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode("ascii")),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]


async def serve_console(files: ConsoleFiles, exchange: HttpExchange) -> int | None:
    """Answer with the page or file at a path; return the status, or None if there is none."""
    if files.is_page(exchange.path):
        found, headers = files.page, _PAGE_HEADERS
    elif (file := files.find(exchange.path)) is not None:
        found, headers = file, _FILE_HEADERS
    else:
        return None
    method = exchange.scope["method"]
    if method == "OPTIONS":
        allowed = Empty(204, [(b"allow", ", ".join(METHODS).encode("ascii"))])
        return await allowed.send(exchange.scope, exchange.receive, exchange.send)
    if method not in METHODS:
        return await send_problem(MethodNotAllowedError(method, list(METHODS)), exchange)
    return await send_file(found, [*_HEADERS, *headers], exchange.scope, exchange.send)


async def send_file(file: ConsoleFile, headers: Headers, scope: Scope, send: Send) -> int:
    """Send a file, compressed where the client takes that; return the status."""
    compressed = any(
        name == b"accept-encoding" and b"gzip" in value.lower() for name, value in scope["headers"]
    )
    body = file.compressed if compressed else file.content
    headers = [
        *headers,
        *([(b"content-encoding", b"gzip")] if compressed else []),
        (b"content-type", file.media_type.encode("ascii")),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown, "more_body": False})
    return 200
