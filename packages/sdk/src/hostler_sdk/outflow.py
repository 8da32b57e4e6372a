"""The results of one attempt on their way out: numbered, in order, within the host's credit."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

import msgspec

from hostler_protocol.content import Usage
from hostler_sdk.errors import Cancelled, RateLimited
from hostler_sdk.results import Result

MAX_WAITING_RESULTS = 1024
"""Results posted without awaiting (as by `ctx.log`) that may wait for credit, per run."""


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
    """What an outflow needs of its connection."""

    def spend_credit(self, run_id: str) -> bool:
        """Take one result's credit; False where there is none."""
        ...

    def write(self, data: bytes) -> None:
        """Send one encoded message, in order with all others."""
        ...


class Outflow:
    """Where the results of one attempt wait for their turn.

    Encodes each result once, at the moment it is posted, size unchecked: the host decides on sizes.
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
        """A result that ends the attempt was posted: the host ignores what follows, so nothing does."""

    @property
    def waiting(self) -> bool:
        """Whether results wait for credit."""
        return bool(self._waiting)

    def post(self, result: Result, *, bounded: bool = True) -> None:
        """Send now if the host has room, else put it in line.

        `bounded=False` is for what ends the attempt, which must not be lost. Cancelled after the attempt
        was fenced; RateLimited where too many wait; TypeError where the payload is not JSON.
        """
        if self._closed:
            raise Cancelled("this attempt of the run is over: the host takes no more results from it")
        if self.ended:
            return
        if bounded and len(self._waiting) >= MAX_WAITING_RESULTS:
            raise RateLimited(
                f"{MAX_WAITING_RESULTS} results wait for the host; await what ctx.log() gives to go slower"
            )
        if result.type != "message.delta" and (problem := result.problem()) is not None:
            raise TypeError(problem)  # it was changed since it was made
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
        """Send what the host has room for now."""
        while self._waiting and self._wire.spend_credit(self._run_id):
            self._wire.write(self._waiting.popleft())
            self._sent += 1
        while self._waiters and self._waiters[0][0] <= self._sent:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def settle(self) -> None:
        """Wait until everything posted so far is sent; Cancelled where the attempt is fenced first."""
        if not self._waiting:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((self._sequence, waiter))
        await waiter

    def close(self) -> None:
        """The attempt is over: drop what waits, and wake those who wait for it."""
        self._closed = True
        self._waiting.clear()
        while self._waiters:
            _, waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(Cancelled("this attempt of the run is over"))
