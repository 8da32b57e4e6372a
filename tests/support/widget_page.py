"""Pages of other sites, with a widget in them."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator, Mapping

STRICT = (
    "default-src 'none'; script-src {host}; connect-src {host} 'self'; base-uri 'none'; "
    "require-trusted-types-for 'script'"
)
"""The strictest policy under which docs/widget.md promises that a widget works."""
HTML = """<!doctype html><html lang="{language}"><meta charset="utf-8"><title>Shop</title>
<meta name="viewport" content="width=device-width"><h1>Shop</h1><main><p>Things.</p></main>
<script src="{host}/widget/{name}.js" async {more}></script></html>"""


class Site:
    """A site at `origin` that answers each path with `pages[path]`: headers and body."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[Mapping[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.origin = ""

    def show(
        self, path: str, host: str, name: str, *, language: str = "en", more: str = "", html: str = HTML
    ) -> str:
        """Put a page with a widget under the strictest policy; return its address."""
        body = html.format(host=host, name=name, language=language, more=more).encode()
        headers = {"content-type": "text/html", "content-security-policy": STRICT.format(host=host)}
        self.pages[path] = (headers, body)
        return f"{self.origin}{path}"


@contextlib.contextmanager
def site() -> Iterator[Site]:
    """Serve a site on a free port."""
    made = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            headers, body = made.pages.get(self.path.partition("?")[0], ({}, b""))
            self.send_response(200 if body else 404)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.origin = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
