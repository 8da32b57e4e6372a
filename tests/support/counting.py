"""A process that counts effects, outlives hosts and plugins, and is believed when they disagree.

`Counter` starts it and asks it. Tools and runners speak to it over a Unix socket, one line of JSON and its
answer per connection:

    effect   {tool, key, run, call, arguments, once}   an effect is made; with `once` only the first of a key
    look     {key}                                     the outcome that stands under a key
    say      {run, attempt, step, answer}              a runner was told something
    at       {point, run}                              somebody stands at a point, and may be kept there

A test asks for `facts`, for the `outcome` of a call, and to `keep` the next one that comes to a point. It
answers questions only after all that was said before them, also by processes that are dead by now.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_QUESTIONS = frozenset({"facts", "outcome", "look"})
_PEER = struct.Struct("3i")


# -- the process ---------------------------------------------------------------------------------------


class _Server:
    """One thread, no asyncio: the order in which things are looked at is the point of it."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(256)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._unread: dict[socket.socket, bytes] = {}
        self._keeping: dict[str, list[socket.socket]] = {}
        self._kept: dict[socket.socket, list[socket.socket]] = {}
        self._effects: list[dict[str, Any]] = []
        self._told: list[dict[str, Any]] = []
        self._by_key: dict[str, Any] = {}
        self._by_call: dict[tuple[str, str], Any] = {}

    def serve(self) -> None:
        """Until the test is gone."""
        while True:
            ready = [key.fileobj for key, _ in self._selector.select()]
            if sys.stdin.fileno() in ready:
                return
            sockets = [one for one in ready if isinstance(one, socket.socket) and one is not self._listener]
            if self._listener in ready:
                sockets += self._accepted()
            said = [(one, message) for one in sockets if (message := self._read(one)) is not None]
            said.sort(key=lambda pair: pair[1]["op"] in _QUESTIONS)
            for one, message in said:
                getattr(self, f"_{message.pop('op')}")(one, **message)

    def _accepted(self) -> Iterator[socket.socket]:
        with contextlib.suppress(BlockingIOError):
            while True:
                one, _ = self._listener.accept()
                one.setblocking(False)
                self._unread[one] = b""
                self._selector.register(one, selectors.EVENT_READ)
                yield one

    def _read(self, one: socket.socket) -> dict[str, Any] | None:
        if one not in self._unread:
            return None  # closed with its keeper, which was ready in the same moment
        try:
            data = one.recv(65536)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        self._unread[one] += data
        if self._unread[one].endswith(b"\n"):
            found: dict[str, Any] = json.loads(self._unread[one])
            self._unread[one] = b""
            return found
        if not data:
            self._close(one)
        return None

    def _answer(self, one: socket.socket, value: Any) -> None:
        with contextlib.suppress(OSError):
            one.setblocking(True)
            one.sendall(json.dumps(value).encode() + b"\n")
        self._close(one)

    def _close(self, one: socket.socket) -> None:
        """Who kept somebody and is gone lets them go; who was kept and is gone stands nowhere any more."""
        if self._unread.pop(one, None) is None:
            return
        self._selector.unregister(one)
        one.close()
        for waiting in self._keeping.values():
            if one in waiting:
                waiting.remove(one)
        for keeper, kept in self._kept.items():
            if one in kept:
                kept.remove(one)
                with contextlib.suppress(OSError):
                    keeper.sendall(b"gone\n")
        for waiting_one in self._kept.pop(one, []):
            self._answer(waiting_one, None)

    # -- what is said to it -----------------------------------------------------------------------

    def _effect(self, one: socket.socket, *, key: str, run: str, call: str, once: bool, **more: Any) -> None:
        serial = len(self._effects) + 1
        made = not (once and key in self._by_key)
        if made:
            self._by_key[key] = {"serial": serial}
            self._by_call.setdefault((run, call), self._by_key[key])
        self._effects.append(
            {"serial": serial, "key": key, "run": run, "call": call, "made": made, "once": once, **more}
        )
        self._answer(one, self._by_key[key])

    def _look(self, one: socket.socket, key: str) -> None:
        self._answer(one, self._by_key.get(key))

    def _say(self, one: socket.socket, **said: Any) -> None:
        self._told.append(said)
        self._answer(one, None)

    def _at(self, one: socket.socket, point: str, run: str) -> None:
        waiting = self._keeping.get(point)
        if not waiting:
            self._answer(one, None)
            return
        keeper = waiting.pop(0)
        pid, _, _ = _PEER.unpack(one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        self._kept.setdefault(keeper, []).append(one)
        keeper.sendall(json.dumps({"pid": pid, "run": run}).encode() + b"\n")

    def _keep(self, one: socket.socket, point: str) -> None:
        self._keeping.setdefault(point, []).append(one)

    def _outcome(self, one: socket.socket, run: str, call: str) -> None:
        self._answer(one, self._by_call.get((run, call)))

    def _facts(self, one: socket.socket) -> None:
        self._answer(one, {"effects": self._effects, "told": self._told})


# -- the test's side -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """Who stands at a point: their process, and the run."""

    pid: int
    run_id: str
    _reader: asyncio.StreamReader

    async def gone(self) -> None:
        """Wait until their process is."""
        assert await self._reader.readline() == b"gone\n"


@dataclass(frozen=True)
class Effect:
    """A tool was called. `made`: it did something; not where its key was known already."""

    serial: int
    tool: str
    key: str
    run: str
    call: str
    arguments: dict[str, Any]
    made: bool
    once: bool


@dataclass(frozen=True)
class Told:
    """What an attempt of a run was answered at a step."""

    run: str
    attempt: int
    step: str
    answer: Any


@dataclass(frozen=True)
class Facts:
    """All that was counted."""

    effects: list[Effect]
    told: list[Told]


@dataclass(frozen=True)
class Counter:
    """The process, as a test asks it."""

    path: str

    async def facts(self) -> Facts:
        """All that it was told so far."""
        found = await self._ask(op="facts")
        return Facts([Effect(**one) for one in found["effects"]], [Told(**one) for one in found["told"]])

    async def outcome(self, run_id: str, call_id: str) -> Any:
        """What came of a call of a run; None: it never happened."""
        return await self._ask(op="outcome", run=run_id, call=call_id)

    @contextlib.asynccontextmanager
    async def keeping(self, point: str) -> AsyncIterator[asyncio.Task[Kept]]:
        """Keep the next one that comes to a point until the block is left; the future says who it is."""
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(json.dumps({"op": "keep", "point": point}).encode() + b"\n")

        async def kept() -> Kept:
            found = json.loads(await reader.readline())
            return Kept(found["pid"], found["run"], reader)

        waiting = asyncio.create_task(kept())
        try:
            yield waiting
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])
            writer.close()

    async def _ask(self, **question: Any) -> Any:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=2**30)
        try:
            writer.write(json.dumps(question).encode() + b"\n")
            return json.loads(await reader.readline())
        finally:
            writer.close()


@contextlib.contextmanager
def counting(folder: Path) -> Iterator[Counter]:
    """Start a counter; gone when the block is left, or the test process is."""
    path = os.path.join(folder, "counter")  # short enough for a socket where `folder` is
    command = [sys.executable, "-S", __file__, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield Counter(path)
        finally:
            process.kill()


if __name__ == "__main__":
    server = _Server(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve()
