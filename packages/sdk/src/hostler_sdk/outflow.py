"""Outgoing results of one attempt: numbered, in order, within the host's credit."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Protocol

import msgspec

from hostler_protocol.content import Usage
from hostler_sdk.errors import Cancelled, RateLimited
from hostler_sdk.results import Result

MAX_WAITING_RESULTS = 1024
"""Results per run that may wait for credit after being posted without awaiting, as by `ctx.log`."""

logger = logging.getLogger("hostler_sdk")


class _Params(msgspec.Struct, frozen=True, omit_defaults=True):
    run_id: str
    type: str
    sequence: int
    data: Any
    usage: Usage | None = None


class _Frame(msgspec.Struct, frozen=True):
    jsonrpc: str
    method: str
    params: _Params


_encode = msgspec.json.Encoder().encode


class Wire(Protocol):
    """The connection, as an outflow uses it."""

    def spend_credit(self, run_id: str) -> bool:
        """Use the credit of one result. Return False if there is none."""
        ...

    def write(self, data: bytes) -> None:
        """Send one encoded message, in order with all others."""
        ...


class Outflow:
    """Sends the results of one attempt within the host's credit, and queues the others.

    A result is encoded once, when it is posted. Its size is not checked: that is the host's decision.
    """

    def __init__(self, run_id: str, wire: Wire) -> None:
        self._run_id = run_id
        self._wire = wire
        self._sequence = 0
        self._sent = 0
        self._waiting: deque[bytes] = deque()
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._closed = False
        self.ended = False
        """A result that ends the attempt was posted. Later ones are dropped with a warning."""

    @property
    def waiting(self) -> bool:
        """Whether results wait for credit."""
        return bool(self._waiting)

    def post(self, result: Result, *, bounded: bool = True) -> None:
        """Send a result if there is credit, else queue it.

        `bounded=False` is for results that end the attempt and must not be lost. Raises Cancelled once the
        attempt is fenced, RateLimited if 1,024 results are queued, TypeError if the payload is not JSON.
        """
        if self._closed:
            raise Cancelled("this attempt of the run is over: the host takes no more results from it")
        if self.ended:
            logger.warning("a %s after the end of run %s is dropped", result.type, self._run_id)
            return
        if bounded and len(self._waiting) >= MAX_WAITING_RESULTS:
            raise RateLimited(
                f"{MAX_WAITING_RESULTS} results wait for the host; await what ctx.log() gives to go slower"
            )
        if result.type != "message.delta" and (problem := result.problem()) is not None:
            raise TypeError(problem)  # the payload was changed after it was built
        sequence = self._sequence + 1
        params = _Params(self._run_id, result.type, sequence, result.data, result.usage)
        data = _encode(_Frame("2.0", "run/result", params)) + b"\n"
        self._sequence = sequence
        self.ended = result.ends_attempt
        if not self._waiting and self._wire.spend_credit(self._run_id):
            self._sent = sequence
            self._wire.write(data)
        else:
            self._waiting.append(data)

    def pump(self) -> None:
        """Send queued results as far as there is credit."""
        while self._waiting and self._wire.spend_credit(self._run_id):
            self._wire.write(self._waiting.popleft())
            self._sent += 1
        while self._waiters and self._waiters[0][0] <= self._sent:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def settle(self) -> None:
        """Wait until every result posted so far is sent. Raises Cancelled if the attempt is fenced first."""
        if not self._waiting:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((self._sequence, waiter))
        await waiter

    def close(self) -> None:
        """End the attempt: drop queued results, and wake the tasks that wait for them."""
        self._closed = True
        self._waiting.clear()
        while self._waiters:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(Cancelled("this attempt of the run is over"))
