"""The host's requests to a plugin process that wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hostler.domain.record import Record
from hostler_protocol.errors import HostlerError, PluginError
from hostler_protocol.frames import MessageId
from hostler_protocol.link import Link


class _Waiting(Record):
    answer: asyncio.Future[Any]
    on_answer: Callable[[], None] | None


class PendingRequests:
    """Matches answers to requests. `send` sends the bytes of one message."""

    def __init__(self, link: Link, send: Callable[[bytes], None]) -> None:
        self._link = link
        self._send = send
        self._waiting: dict[MessageId, _Waiting] = {}
        self._over: PluginError | None = None

    async def ask(self, method: str, params: Any, on_answer: Callable[[], None] | None = None) -> Any:
        """Send a request and wait for its answer; `on_answer` is called as soon as it arrives.

        Raises the peer's refusal, or the reason why the connection is gone.
        """
        if self._over is not None:
            raise self._over
        id_, answer = self.begin(method, params, on_answer)
        try:
            return await answer
        finally:
            self.give_up(id_)

    def ask_in_passing(self, method: str, params: Any, then: Callable[[], None]) -> None:
        """Send a request and call `then` once it is answered or refused; does not wait."""
        _, answer = self.begin(method, params)

        def answered(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and not isinstance(future.exception(), PluginError):
                then()

        answer.add_done_callback(answered)

    def begin(
        self, method: str, params: Any, on_answer: Callable[[], None] | None = None
    ) -> tuple[MessageId, asyncio.Future[Any]]:
        """Send a request; return its id and the future answer. If this raises, nothing was sent."""
        id_, data = self._link.request(method, params)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = _Waiting(answer, on_answer)
        self._send(data)
        return id_, answer

    def give_up(self, id_: MessageId) -> None:
        """Drop an answer that is not needed any more; no effect if it has arrived."""
        if self._waiting.pop(id_, None) is not None:
            self._link.abandon(id_)

    def answered(self, id_: MessageId, result: Any) -> None:
        """Resolve the request with the peer's answer."""
        waiting = self._waiting.pop(id_, None)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(result)
            if waiting.on_answer is not None:
                waiting.on_answer()

    def refused(self, id_: MessageId, error: HostlerError) -> None:
        """Resolve the request with the peer's refusal."""
        waiting = self._waiting.pop(id_, None)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(error)

    def close(self, error: PluginError) -> None:
        """Fail all requests; no answer can arrive any more."""
        self._over = error
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            if not request.answer.done():
                request.answer.set_exception(error)
