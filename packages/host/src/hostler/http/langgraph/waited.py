"""The response of a request that waits for the end of a run, however long that takes.

White space is sent meanwhile, which JSON allows: proxies and clients keep the connection, and `Location` is
there from the start, so that a client whose connection breaks asks for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from hostler.domain.record import Record
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.langgraph.dialect import error_body
from hostler.http.problems import problem_of
from hostler.http.responses import COMMON_HEADERS, Headers
from hostler_protocol.errors import CancelledCallError, HostlerError

QUIET_SECONDS = 5.0
"""Between two pieces of white space. Clients of LangGraph give up after 300 s without a byte."""


class Waited(Record):
    """The JSON that `read` gives at the end. An error by then is `__error__`: the status is sent already."""

    read: Callable[[], Awaitable[bytes]]
    headers: Headers = msgspec.field(default_factory=list)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the response; return its status."""
        head = [*COMMON_HEADERS, *self.headers, (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        reading = asyncio.ensure_future(self.read())
        try:
            while not (await asyncio.wait({reading}, timeout=QUIET_SECONDS))[0]:
                await send({"type": "http.response.body", "body": b"\n", "more_body": True})
            body = await reading
        except CancelledCallError:
            return 200  # nobody is there any more
        except HostlerError as error:
            said = error_body(problem_of(error))
            body = msgspec.json.encode({"__error__": {"error": said["code"], "message": said["detail"]}})
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return 200
