"""The connection to one plugin process: handshake, runs, calls, liveness and back pressure.

A thin shell around `Link(Side.HOST)` over any transport. Nothing here waits for a run: messages go to the
run's `RunHandler` at once, and reading pauses while too many results are not committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from hostler.plugins.channels import PluginChannels
from hostler.plugins.connection_monitor import ConnectionMonitor
from hostler.plugins.connection_runs import ConnectionRun, ConnectionRuns
from hostler.plugins.handler import RunHandler
from hostler.plugins.handshake import shake_hands
from hostler.plugins.heavy_calls import HeavyCalls
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS, ConnectionLimits
from hostler.plugins.lingering_runs import LingeringRuns, RunLingersError
from hostler.plugins.pending_requests import PendingRequests
from hostler.plugins.read_pause import ReadPause
from hostler.plugins.send_queue import SendQueue
from hostler.plugins.tool_calls import PluginToolCalls
from hostler.plugins.transport import PluginTransport
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    HostlerError,
    PayloadTooLargeError,
    PluginCrashedError,
    PluginError,
    PluginProtocolError,
    PluginStartError,
    UnavailableError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import PluginIdentity
from hostler_protocol.incoming import (
    Broken,
    CallCancelled,
    Called,
    CalledAhead,
    Incoming,
    Noted,
    Refused,
    Replied,
    ResultArrived,
    RunBroken,
    RunEnded,
    RunLeft,
    Warned,
)
from hostler_protocol.limits import Limits
from hostler_protocol.link import Link
from hostler_protocol.manifest import AgentRunnerManifest, ToolManifest
from hostler_protocol.methods import (
    AnswerAhead,
    NoParams,
    RunAheadNote,
    RunCancelNote,
    RunCreditNote,
    RunParkNote,
    RunStartParams,
    Side,
)
from hostler_protocol.states import State

RESTART_POLL_SECONDS = 0.1
INGEST = "ingest/"
"""Requests of channels begin so."""

_log = logging.getLogger(__name__)


class PluginConnection:
    """The connection to one plugin process.

    Call `open` first. `closed` is done, with the reason, when the connection is lost.
    """

    def __init__(
        self,
        expected_key: str,
        *,
        limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS,
        wire_limits: Limits | None = None,
    ) -> None:
        self.identity: PluginIdentity | None = None
        self.expected_key = expected_key
        self.runners: dict[str, AgentRunnerManifest] = {}
        self.tools: dict[str, ToolManifest] = {}
        self.channel_manifests: dict[str, ChannelManifest] = {}
        self.warnings: list[str] = []
        """Defects in the plugin's identity and manifests."""
        self.takes_ahead = False
        """Whether answers may be sent ahead of their calls."""
        self.limits = limits
        self.link = Link(Side.HOST, wire_limits)
        self.closed: asyncio.Future[PluginError] = asyncio.get_running_loop().create_future()
        self._transport: PluginTransport | None = None
        self._runs = ConnectionRuns(limits.run_warnings, self._handler_failed)
        self._heavy_calls = HeavyCalls(limits.heavy_calls)
        self._out = SendQueue(limits)
        self._requests = PendingRequests(self.link, self._send)
        self._leaving = LingeringRuns()
        self.tool_calls = PluginToolCalls(self._requests, lambda: self.is_ready, self._notify, limits)
        self.channels = PluginChannels(self._requests, lambda: self.is_ready, self.refuse, limits)
        self._delivering = False
        self._reading = ReadPause(limits.held_result_bytes)
        self._monitor = ConnectionMonitor(limits, self._out, self._reading, self._ping, self._fail)

    @property
    def version(self) -> str:
        """The plugin's own version."""
        return "" if self.identity is None else self.identity.version

    @property
    def active_runs(self) -> frozenset[str]:
        """The runs the plugin works on."""
        return self._runs.live

    @property
    def is_ready(self) -> bool:
        """Whether runs can be started."""
        return self.link.state is State.READY

    @property
    def held_bytes(self) -> int:
        """Bytes of results that were read and not given back with `credit`."""
        return self._runs.held_bytes

    # -- the handshake ----------------------------------------------------------------------------

    async def open(self, transport: PluginTransport) -> None:
        """Do the handshake and learn the runners. Raises PluginStartError with the reason, and kills the
        peer."""
        self._transport = self._out.transport = self._reading.transport = transport
        seconds = self.limits.handshake_seconds
        try:
            offer = await shake_hands(self._requests.ask, self.expected_key, self.link.limits, seconds)
        except PluginStartError as error:
            self._fail(error)
            raise
        except asyncio.CancelledError:
            self._fail(PluginStartError("the start was given up"))
            raise
        self.identity, self.warnings = offer.identity, offer.warnings
        self.runners, self.tools, self.takes_ahead = offer.runners, offer.tools, offer.takes_ahead
        self.channel_manifests = offer.channels
        for warning in self.warnings:
            _log.warning("plugin %s: %s", self.expected_key, warning)
        self._monitor.start()

    # -- runs -------------------------------------------------------------------------------------

    async def start_run(self, params: RunStartParams, handler: RunHandler) -> None:
        """Start a run; `handler` receives all its events, possibly before this returns.

        Raises PluginError if the plugin refuses, is gone or does not answer; RunLingersError if an earlier
        attempt of the run stays in the process; UnavailableError while it shuts down; PayloadTooLargeError
        for a context over the message size. After an error the handler gets no further events.
        """
        run_id = params.context.run_id
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self.limits.leave_seconds
        lingers = f"an earlier attempt of run {run_id} does not leave the process"
        if await self.wait_free([run_id], self.limits.leave_seconds) or run_id in self._runs:
            raise RunLingersError(lingers)
        while True:
            try:
                await self._start_once(params, handler)
            except ConflictError as error:
                if not self.link.has_ended(run_id):
                    raise PluginProtocolError(f"run/start was refused: {error.message}") from error
                if loop.time() >= give_up:  # it was parked, and its code is still running
                    raise RunLingersError(lingers) from error
                await asyncio.sleep(RESTART_POLL_SECONDS)
            else:
                return

    async def wait_free(self, run_ids: Iterable[str], seconds: float) -> list[str]:
        """Wait up to `seconds` until the plugin works on none of these ended runs; return the remaining
        ones."""
        return await self._leaving.wait(run_ids, seconds)

    async def _start_once(self, params: RunStartParams, handler: RunHandler) -> None:
        run_id = params.context.run_id
        if self.closed.done():
            raise self.closed.result()
        if not self.is_ready:
            raise UnavailableError(f"plugin {self.expected_key} is shutting down; try again")
        run = self._runs.add(run_id, handler)
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                await self._requests.ask("run/start", params, run.started)
        except TimeoutError:
            self._abandon_start(run_id)
            seconds = self.limits.answer_seconds
            raise PluginCrashedError(f"the plugin did not answer run/start within {seconds:g} s") from None
        except asyncio.CancelledError:
            self._abandon_start(run_id)
            raise
        except HostlerError as error:
            self.link.end_run(run_id)
            self._runs.forget(run_id)
            if isinstance(error, PluginError | ConflictError | PayloadTooLargeError):
                raise
            raise PluginProtocolError(f"run/start was refused: {error.message}") from error

    def _abandon_start(self, run_id: str) -> None:
        self.cancel_run(run_id, "its start was given up")
        self.end_run(run_id)

    def cancel_run(self, run_id: str, reason: str = "cancelled") -> None:
        """Ask the runner to stop. Events within the grace period are still delivered."""
        self._notify("run/cancel", RunCancelNote(run_id=run_id, reason=reason))

    def credit(self, run_id: str, results: int, size: int) -> None:
        """Credit committed results: let the runner send as many more, and let reading continue."""
        if self._runs.give_back(run_id, size) and results > 0:
            self._notify("run/credit", RunCreditNote(run_id=run_id, results=results))
        self._regulate()

    def end_run(self, run_id: str) -> None:
        """Fence a run: its handler gets no further events, open calls are refused, later messages dropped.

        The runner is not notified; call `cancel_run` before to stop it.
        """
        if self._forget(run_id) is not None:
            over = CancelledCallError("the run has ended, was cancelled or was superseded")
            for call_id in self.link.open_calls(run_id):
                self._answer(call_id, self.link.refuse(call_id, over))

    def park_run(self, run_id: str) -> None:
        """Tell the plugin that the run waits for a person, and fence it; its open calls stay unanswered."""
        calls = self.link.open_calls(run_id)
        self._notify("run/park", RunParkNote(run_id=run_id))
        if self._forget(run_id) is not None:
            self._leaving.left(run_id)  # the plugin has fenced it as well
            for call_id in calls:
                self._heavy_calls.close(call_id)
            self._deliver_calls()

    def _forget(self, run_id: str) -> ConnectionRun | None:
        self.link.end_run(run_id)
        run = self._runs.forget(run_id)
        if run is not None and not run.said_end:
            self._leaving.add(run_id)
        self._regulate()
        return run

    # -- calls ------------------------------------------------------------------------------------

    def reply(self, call_id: MessageId, result: Any) -> None:
        """Answer a call. If the answer is over the message size, the plugin gets `payload_too_large`."""
        self._answer(call_id, self.link.reply(call_id, result))

    def refuse(self, call_id: MessageId, error: HostlerError) -> None:
        """Refuse a call."""
        self._answer(call_id, self.link.refuse(call_id, error))

    async def stream(self, call_id: MessageId, chunk: Any) -> bool:
        """Send one chunk of a call's answer and wait until there is room for more.

        Returns False if the answer is no longer wanted. Raises PayloadTooLargeError for a chunk over the
        message size.
        """
        if self.closed.done():
            return False
        data = self.link.stream(call_id, chunk)
        if not data:
            return False
        self._send(data)
        await self.drain()
        return not self.closed.done()

    def send_ahead(self, run_id: str, requests: int, answers: list[AnswerAhead]) -> None:
        """Send answers ahead of their calls. `requests`: how many calls with an id were seen before."""
        self._notify("run/ahead", RunAheadNote(run_id=run_id, requests=requests, answers=answers))

    async def drain(self) -> None:
        """Wait until few bytes are unsent, or the connection is closed."""
        await self._out.drain()

    def _answer(self, call_id: MessageId, data: bytes) -> None:
        self._heavy_calls.close(call_id)
        self._send(data)
        self._deliver_calls()

    def _deliver_calls(self) -> None:
        if self._delivering:
            return  # an answer from within a call: the loop below continues with the next one
        self._delivering = True
        try:
            for called in self._heavy_calls.admitted():
                self._runs.call(called)
        finally:
            self._delivering = False

    # -- incoming ---------------------------------------------------------------------------------

    def bytes_received(self, data: bytes) -> None:
        """Receive bytes of a stream transport."""
        self._take(self.link.receive(data))

    def frame_received(self, data: bytes | str) -> None:
        """Receive one message of a transport with message boundaries."""
        self._take(self.link.receive_frame(data))

    def sent_some(self) -> None:
        """Note that the transport can take more."""
        self._out.sent_some()

    def lost(self, error: PluginError) -> None:
        """Note that the transport is closed."""
        self._finish(error)

    def _take(self, incoming: Iterable[Incoming]) -> None:
        self._monitor.heard()
        results: list[ResultArrived] = []
        for item in incoming:
            if isinstance(item, ResultArrived):
                if results and results[0].result.run_id != item.result.run_id:
                    self._runs.results(results)
                    results = []
                results.append(item)
                continue
            if results:
                self._runs.results(results)
                results = []
            if isinstance(item, Called):
                self._take_call(item)
            elif isinstance(item, CalledAhead):
                self._runs.call_ahead(item)
            else:
                self._take_other(item)
        if results:
            self._runs.results(results)
        if data := self.link.data_to_send():
            for message in data.splitlines(keepends=True):
                self._send(message)
        self._regulate()

    def _take_call(self, item: Called) -> None:
        if item.method.startswith(INGEST):
            self.channels.called(item)
        elif self._heavy_calls.add(item):
            self._deliver_calls()
        else:
            self._runs.call(item)

    def _take_other(self, item: Incoming) -> None:
        match item:
            case Replied(id=id_, result=result):
                self._requests.answered(id_, result)
            case Refused(id=id_, error=error):
                self._requests.refused(id_, error)
            case CallCancelled(id=id_, run_id=run_id):
                if not self._heavy_calls.close(id_):
                    self._runs.call_cancelled(run_id, id_)
                self._deliver_calls()
            case RunEnded(run_id=run_id):
                self._runs.ended(run_id)
            case RunLeft(run_id=run_id):
                self._leaving.left(run_id)
            case RunBroken(run_id=run_id, code=code, reason=reason):
                self.cancel_run(run_id, reason)
                self._runs.broken(run_id, code, reason)
            case Noted(params=params):
                self.channels.noted(params)
            case Warned():
                self._take_warning(item)
            case Broken(reason=reason):
                self._fail(PluginProtocolError(f"the connection was closed: {reason}"))

    def _take_warning(self, item: Warned) -> None:
        if not self._monitor.bad_message(item.reason):
            return
        if item.run_id is not None and not item.foreign and item.run_id in self._runs:
            self._runs.warned(item.run_id, item.reason)
        else:
            _log.debug("plugin %s: %s", self.expected_key, item.reason)

    def _handler_failed(self, run_id: str, run: ConnectionRun) -> None:
        _log.exception("plugin %s: handling run %s failed", self.expected_key, run_id)
        self.cancel_run(run_id, "the host failed")
        self.end_run(run_id)
        if not self.closed.done():
            error = PluginError("the host failed while it handled the run; its log says more")
            asyncio.get_running_loop().call_soon(run.handler.on_lost, error)

    # -- sending and the end ----------------------------------------------------------------------

    def _notify(self, method: str, params: Any) -> None:
        if self.link.state in (State.READY, State.DRAINING):
            self._send(self.link.notify(method, params))

    def _send(self, data: bytes) -> None:
        if reason := self._out.send(data):
            self._fail(PluginCrashedError(reason))

    def _regulate(self) -> None:
        if not self.closed.done():
            self._reading.regulate(self._runs.held_bytes)

    def _ping(self, answered: Callable[[], None]) -> bool:
        if self.link.state not in (State.READY, State.DRAINING):
            return False
        self._requests.ask_in_passing("ping", NoParams(), answered)
        return True

    async def shut_down(self) -> None:
        """Close its channels, then ask the plugin to finish its runs and exit; return once it has agreed or
        is gone.

        Raises TimeoutError after `answer_seconds`. `closed` is done when it has exited.
        """
        if self.is_ready:
            await self.channels.close_all(f"plugin {self.expected_key} is being stopped or replaced")
        if self.is_ready:
            try:
                async with asyncio.timeout(self.limits.answer_seconds):
                    await self._requests.ask("shutdown", NoParams())
            except HostlerError as error:
                _log.info("plugin %s: shutdown: %s", self.expected_key, error.message)

    def abort(self, reason: str) -> None:
        """Kill the process; its runs are lost."""
        self._fail(PluginCrashedError(reason))

    def _fail(self, error: PluginError) -> None:
        self._out.flush()
        self._finish(error)
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, error: PluginError) -> None:
        if self.closed.done():
            return
        self.closed.set_result(error)
        for _ in self.link.close(error.message):
            pass
        self._monitor.stop()
        self._requests.close(error)
        self._runs.lost(error)
        self.channels.lost(error)
        self._leaving.clear()
        self._heavy_calls.clear()
        self._out.close()
