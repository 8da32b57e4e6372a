"""A web server on a real socket that says what a test tells it, and a resolver that answers by script.

async with Web() as web:
    web.pages["/"] = page("<p>hello")
    web.pages["/slow"] = b"..."          # the bytes of a whole answer, as they stand
    web.pages["/by-hand"] = serve        # async (Asked, StreamWriter) -> None
    ... web.url("/"); web.asked
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from hostler.egress import SystemNetwork
from hostler.egress.addresses import IPAddress
from support.listening import Asked, Listening

Page = bytes | Callable[[Asked, asyncio.StreamWriter], Awaitable[None]] | Callable[[Asked], bytes]


def page(
    body: bytes | str = b"",
    *,
    status: str = "200 OK",
    kind: str = "text/html; charset=utf-8",
    headers: Sequence[str] = (),
) -> bytes:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        f"content-length: {len(data)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def redirect(to: str, status: int = 302) -> bytes:
    """An answer that leads elsewhere."""
    return page(b"elsewhere", status=f"{status} Found", headers=[f"location: {to}"])


@dataclass
class Web(Listening):
    """The server."""

    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"{'https' if self.tls else 'http'}://{host or self.host}:{self.port}{path}"

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self.asked.append(asked)
        path = asked.path
        found = self.pages.get(path, self.pages.get(path.partition("?")[0], self.pages.get("*")))
        if found is None:
            found = page("nothing here", status="404 Not Found", kind="text/plain")
        if isinstance(found, bytes):
            writer.write(found)
            return True
        said = found(asked) if _takes_one(found) else found(asked, writer)  # type: ignore[call-arg]
        if isinstance(said, bytes):
            writer.write(said)
            return True
        await said
        return False


def _takes_one(serve: Callable[..., object]) -> bool:
    code = getattr(serve, "__code__", None)
    bound = 1 if hasattr(serve, "__self__") else 0
    return code is not None and code.co_argcount - bound == 1


@dataclass
class Names(SystemNetwork):
    """A resolver with answers by name: a list is one answer for ever, a list of lists one after the other."""

    answers: dict[str, list[str] | list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[IPAddress]:
        self.asked.append(host)
        found = self.answers.get(host)
        if found is None:
            raise OSError("no such name")
        if found and isinstance(found[0], list):
            lists = found
            now = lists.pop(0) if len(lists) > 1 else lists[0]
            return [ip_address(text) for text in now]
        return [ip_address(str(text)) for text in found]


__all__ = ["Asked", "Names", "Page", "Web", "page", "redirect"]
