"""The plugin's end of a real connection, in the process of the test: it says what the test has it say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hostler.plugins.connection import PluginConnection
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS, ConnectionLimits
from hostler_protocol import Limits, Link, PluginIdentity, Side
from hostler_protocol.errors import HostlerError, PluginCrashedError
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Called, Incoming, Noted, Refused, Replied
from hostler_protocol.manifest import AgentRunnerManifest, RunnerList
from hostler_protocol.methods import InitializeReply, NoParams, RunEndNote, RunStartParams
from support.call_params import params_of
from support.links import line

PLUGIN = PluginIdentity(author="acme", name="echo")


class LinkedPlugin:
    """A `Transport` whose other end is a `Link` of the plugin's side.

    `said`: what the host sent about runs, in order. `starts`: `run/start` requests that are not answered;
    they are answered at once unless `holds_starts`, with `refuses_starts` if that is set.
    """

    def __init__(self, manifest: AgentRunnerManifest) -> None:
        self._link = Link(Side.PLUGIN, Limits())
        self._manifest = manifest
        self._connection: PluginConnection | None = None
        self._sequences: dict[str, int] = {}
        self._changed = asyncio.Event()
        self.said: list[tuple[str, Any]] = []
        self.answers: dict[MessageId, Any] = {}
        self.started: list[RunStartParams] = []
        self.starts: list[Called] = []
        self.holds_starts = False
        self.refuses_starts: HostlerError | None = None

    async def connect(self, limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS) -> PluginConnection:
        """Do the handshake over a new connection."""
        connection = self._connection = PluginConnection(PLUGIN.key, limits=limits)
        await connection.open(self)
        return connection

    # -- what the host sends (Transport) ----------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        return 0

    def send(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            for item in self._link.receive(message):
                self._take(item)
        self._changed.set()

    def pause_reading(self) -> None:
        self.said.append(("pause_reading", None))

    def resume_reading(self) -> None:
        self.said.append(("resume_reading", None))

    def close_sending(self) -> None:
        pass

    def abort(self) -> None:
        self.lose("killed")

    def _take(self, item: Incoming) -> None:
        match item:
            case Called(id=id_, method="initialize"):
                self._say(self._link.reply(id_, InitializeReply(protocol=1, plugin=PLUGIN)))
            case Called(id=id_, method="runners/list"):
                self._say(
                    self._link.reply(
                        id_, RunnerList(runners=[msgspec.Raw(msgspec.json.encode(self._manifest))])
                    )
                )
            case Called(id=id_, method="ping"):
                self._say(self._link.reply(id_, NoParams()))
            case Called(method="run/start"):
                self.starts.append(item)
                if not self.holds_starts:
                    self.answer_start()
            case Noted(method=method, params=params):
                self.said.append((method, params))
            case Replied(id=id_, result=result):
                self.answers[id_] = result
            case Refused(id=id_, error=error):
                self.answers[id_] = error
            case _:
                raise AssertionError(f"unexpected: {item}")

    # -- what the plugin says ---------------------------------------------------------------------

    def answer_start(self) -> None:
        """Answer the oldest `run/start`."""
        called = self.starts.pop(0)
        if self.refuses_starts is not None:
            self._say(self._link.refuse(called.id, self.refuses_starts))
            return
        self.started.append(called.params)
        self._sequences[called.params.context.run_id] = 0
        self._say(self._link.reply(called.id, NoParams()))

    def results(self, run_id: str, *results: tuple[str, Any], **fields: Any) -> None:
        """Send results, (type, data) each with `fields`, in one piece."""
        data = b""
        for result_type, payload in results:
            self._sequences[run_id] += 1
            params = {"run_id": run_id, "type": result_type, "sequence": self._sequences[run_id]}
            data += line({"method": "run/result", "params": {**params, "data": payload, **fields}})
        self._say(data)

    def end(self, run_id: str) -> None:
        """Say that the runner has finished."""
        self._say(self._link.notify("run/end", RunEndNote(run_id=run_id)))

    def call(self, method: str, run_id: str, **arguments: Any) -> MessageId:
        """Make a Host API call; its answer appears in `answers`."""
        id_, data = self._link.request(f"host/{method}", params_of(method, run_id, **arguments))
        self._say(data)
        return id_

    def lose(self, why: str = "the process exited") -> None:
        """Exit."""
        if self._connection is not None:
            asyncio.get_running_loop().call_soon(self._connection.lost, PluginCrashedError(why))

    def _say(self, data: bytes) -> None:
        connection = self._connection
        assert connection is not None
        asyncio.get_running_loop().call_soon(connection.bytes_received, data)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what the host has sent."""
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def reasons(self) -> list[str]:
        """Why runs were asked to stop, in order."""
        return [params.reason for method, params in self.said if method == "run/cancel"]

    def credits(self) -> list[int]:
        """How many further results were allowed, in order."""
        return [params.results for method, params in self.said if method == "run/credit"]
