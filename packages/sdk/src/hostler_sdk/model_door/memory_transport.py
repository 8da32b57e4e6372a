"""The door for HTTP clients of this process, without a socket: `ctx.models.openai_client()`.

Clients are made with httpx or with httpx2, its successor with the same interface: whichever `openai`, or
`anthropic`, uses.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import Any

from hostler_sdk.model_door.door import ModelDoor
from hostler_sdk.model_door.exchange import DoorAnswer, DoorRequest
from hostler_sdk.model_door.run_door import RunDoor

ORIGIN = "http://model-door.invalid"
BASE_URL = f"{ORIGIN}/v1"
"""Where clients in this process believe the door to be; the name leads nowhere."""
LIBRARIES = ("httpx", "httpx2")


def http_client(door: ModelDoor, run: RunDoor, *, package: str = "openai", **options: Any) -> Any:
    """Return an `AsyncClient` that the door answers. ModuleNotFoundError without a library.

    `package`: whose clients it is for.
    """
    library = http_library(package)
    options.setdefault("base_url", BASE_URL)
    headers = {"authorization": f"Bearer {run.key}", **options.pop("headers", {})}
    return library.AsyncClient(transport=_transport_class(library)(door), headers=headers, **options)


def openai_client(door: ModelDoor, run: RunDoor, **options: Any) -> Any:
    """Return an `AsyncOpenAI`. ModuleNotFoundError if the package is not there."""
    openai = importlib.import_module("openai")
    client = http_client(door, run, timeout=None)
    return openai.AsyncOpenAI(base_url=BASE_URL, api_key=run.key, http_client=client, **options)


def anthropic_client(door: ModelDoor, run: RunDoor, **options: Any) -> Any:
    """Return an `AsyncAnthropic`. ModuleNotFoundError if the package is not there."""
    anthropic = importlib.import_module("anthropic")
    client = http_client(door, run, package="anthropic", timeout=None)
    return anthropic.AsyncAnthropic(base_url=ORIGIN, api_key=run.key, http_client=client, **options)


def http_library(package: str = "openai") -> Any:
    """Return the HTTP library that a package uses; without it, the first that is there."""
    try:
        client = importlib.import_module(package).DefaultAsyncHttpxClient
    except (ModuleNotFoundError, AttributeError):
        pass
    else:
        for kind in client.__mro__:
            library = kind.__module__.partition(".")[0]
            if library in LIBRARIES:
                return importlib.import_module(library)
    for name in LIBRARIES[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(LIBRARIES[-1])


@cache
def _transport_class(library: Any) -> Any:
    """Return the transport, as a class of this library."""

    class Pieces(library.AsyncByteStream):  # type: ignore[misc]
        """The pieces of a streamed answer."""

        def __init__(self, answer: DoorAnswer) -> None:
            self._answer = answer

        async def __aiter__(self) -> AsyncIterator[bytes]:
            assert self._answer.pieces is not None
            async with aclosing(self._answer.pieces) as pieces:
                async for piece in pieces:
                    yield piece

        async def aclose(self) -> None:
            """Give up what was not read."""
            await self._answer.close()

    class DoorTransport(library.AsyncBaseTransport):  # type: ignore[misc]
        """Answers requests from the door of this process, whatever their address."""

        def __init__(self, door: ModelDoor) -> None:
            self._door = door

        async def handle_async_request(self, request: Any) -> Any:
            """Answer a request. The client's timeout for reading holds until an answer begins."""
            answer = await self._answer(request)
            body: Any = {"content": answer.body} if answer.pieces is None else {"stream": Pieces(answer)}
            return library.Response(answer.status, headers=answer.headers, request=request, **body)

        async def _answer(self, request: Any) -> DoorAnswer:
            if asyncio.get_running_loop() is not self._door.loop:
                raise RuntimeError(
                    "this client works on the event loop of the run; elsewhere use ctx.models.openai_url "
                    "and ctx.models.openai_key"
                )
            headers = {name.lower(): value for name, value in request.headers.items()}
            path = request.url.raw_path.decode("ascii")
            asked = DoorRequest(request.method, path, headers, await request.aread())
            seconds = (request.extensions.get("timeout") or {}).get("read")
            try:
                async with asyncio.timeout(seconds):
                    return await self._door.answer(asked)
            except TimeoutError:
                raise library.ReadTimeout(f"no answer within {seconds:g} s", request=request) from None

    return DoorTransport
