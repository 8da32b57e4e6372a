"""HTTP clients whose requests the model door of the current run answers.

For frameworks that build a client once, before there is a run: each request goes to the door of the run in
whose task or thread it is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from concurrent.futures import CancelledError
from functools import cache
from typing import Any

from hostler_adapters.active_run import ActiveRun, current_run
from hostler_sdk.model_door.memory_transport import http_library

BASE_URL = "http://model-door.invalid/v1"
"""Where such clients believe the door to be; the name leads nowhere."""
KEY = "the-key-of-the-run"
"""What they have for a key; each request gets that of its run instead."""
_OWN_HEADERS = frozenset({"host", "content-length", "authorization"})


def async_http_client() -> Any:
    """Return an `AsyncClient` for requests on the run's event loop."""
    library = http_library()
    return library.AsyncClient(transport=_transports(library)[0](), base_url=BASE_URL, timeout=None)


def http_client() -> Any:
    """Return a `Client` for requests in threads that the run has begun, as of code that blocks."""
    library = http_library()
    return library.Client(transport=_transports(library)[1](), base_url=BASE_URL, timeout=None)


async def _send(run: ActiveRun, request: Any, content: bytes) -> Any:
    client = run.ctx.models.openai_http_client(timeout=None)
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
    path = request.url.raw_path.decode("ascii")
    own = client.build_request(
        request.method, f"http://model-door.invalid{path}", headers=headers, content=content
    )
    return await client.send(own, stream=True)


@cache
def _transports(library: Any) -> tuple[Any, Any]:
    """Return the transports, asynchronous and blocking, as classes of this library."""

    class RunTransport(library.AsyncBaseTransport):  # type: ignore[misc]
        """Answers requests from the door of the current run."""

        async def handle_async_request(self, request: Any) -> Any:
            """Answer a request."""
            return await _send(current_run(), request, await request.aread())

    class BlockingPieces(library.SyncByteStream):  # type: ignore[misc]
        """The pieces of an answer, in a thread."""

        def __init__(self, run: ActiveRun, answer: Any) -> None:
            self._run = run
            self._answer = answer
            self._pieces = aiter(answer.stream)  # of an answer that came whole, aiter_raw gives none

        def __iter__(self) -> Iterator[bytes]:
            while (piece := _wait(self._run, anext(self._pieces, None))) is not None:
                yield piece

        def close(self) -> None:
            """Give up what was not read."""
            if not self._run.over:  # else the door has done so
                _wait(self._run, self._answer.aclose())

    class BlockingRunTransport(library.BaseTransport):  # type: ignore[misc]
        """The same in a thread."""

        def handle_request(self, request: Any) -> Any:
            """Answer a request. Raises RuntimeError on the event loop, which would wait for itself."""
            run = current_run()
            if _on_a_loop():
                raise RuntimeError(
                    "a blocking call of a model on the run's event loop: await its asynchronous form, like "
                    "ainvoke or astream, or call it in a thread (asyncio.to_thread)"
                )
            answer = _wait(run, _send(run, request, request.read()))
            pieces = BlockingPieces(run, answer)
            return library.Response(
                answer.status_code, headers=answer.headers, stream=pieces, request=request
            )

    return RunTransport, BlockingRunTransport


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _wait(run: ActiveRun, awaited: Awaitable[Any]) -> Any:
    """Have the run's loop do something, and wait in this thread. Raises RuntimeError at the run's end."""

    async def done() -> Any:
        return await awaited

    waiting = asyncio.run_coroutine_threadsafe(done(), run.loop)
    run.requests.add(waiting)
    if run.over:
        waiting.cancel()
    try:
        return waiting.result()
    except CancelledError:
        raise RuntimeError("the run ended while its model answered") from None
    finally:
        run.requests.discard(waiting)
