"""The plugin's side of a connection: runs, tool calls and channels for the host, and their messages.

It knows the link, not the transport: bytes come in through `received` and go out through a `Transport`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from hostler_protocol.errors import HostlerError, NotFoundError
from hostler_protocol.frames import MessageId, raw
from hostler_protocol.incoming import (
    Broken,
    CallCancelled,
    Called,
    Incoming,
    Noted,
    Refused,
    Replied,
    StreamArrived,
    Warned,
)
from hostler_protocol.limits import CANCEL_GRACE_SECONDS, PROTOCOL_VERSION
from hostler_protocol.link import Link
from hostler_protocol.manifest import RunnerList
from hostler_protocol.methods import (
    InitializeParams,
    InitializeReply,
    NoParams,
    RunAheadNote,
    RunCancelNote,
    RunCreditNote,
    RunEndNote,
    RunParkNote,
    RunStartParams,
    Side,
)
from hostler_protocol.states import State
from hostler_protocol.tools import ToolCancelNote, ToolInvokeParams, ToolLookupParams
from hostler_sdk.execution import RunExecution
from hostler_sdk.host_calls import CallTable
from hostler_sdk.plugin import Plugin
from hostler_sdk.tool_calls import ServedToolCalls

if TYPE_CHECKING:
    from hostler_sdk.channels.served import ServedChannels
    from hostler_sdk.model_door.door import ModelDoor

TURNS_TOGETHER = 32
"""Messages that nobody waits for are sent together with those of as many further turns, as long as one comes
in each."""
FLUSH_BYTES = 64 * 1024
"""Messages of one turn of the loop are sent in one write, or earlier once there are this many bytes."""

logger = logging.getLogger("hostler_sdk")


class Transport(Protocol):
    """Sends bytes: a thin shell around a pipe, a socket or memory."""

    def write(self, data: bytes) -> None:
        """Send one or more messages, each with its line end."""
        ...

    async def drain(self) -> None:
        """Wait while the host does not read."""
        ...


class HostConnection:
    """One connection to a host, from `initialize` to its end."""

    def __init__(self, plugin: Plugin, transport: Transport) -> None:
        self.plugin = plugin
        self.closed = asyncio.Event()
        """Set when the host has shut the plugin down, or the connection is lost."""
        self.takes_reasoning = False
        """Whether the host takes `reasoning` of messages; an older one drops what has it."""
        self.reason = ""
        """Why the connection was lost; empty after an orderly shutdown."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._link = Link(Side.PLUGIN)
        self.calls = CallTable(self._link, self.write, self.write_now, self.write_later, self.turn)
        self._tools = ServedToolCalls(plugin.tools, self._link, self.write, self._leave_when_drained)
        self._channels = self._served_channels()
        self._runs: dict[str, RunExecution] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._shutdown_id: MessageId | None = None
        self._gone = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._in_turn = False
        """Whether a message was written in this turn of the loop."""
        self._wrote_now = False
        self._turns = 0
        """Turns of the loop in which only messages were written that nobody waits for."""
        self._in_no_hurry = False
        self._door: ModelDoor | None = None

    # -- bytes in and out ------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Take bytes of a stream transport, cut in any way."""
        self._take(self._link.receive(data))

    def received_frame(self, data: bytes | str) -> None:
        """Take one message of a transport that keeps messages apart."""
        self._take(self._link.receive_frame(data))

    def lost(self, reason: str) -> None:
        """End the connection and all its runs: the transport is gone."""
        self._gone = True
        self._take(self._link.close(reason))

    def write(self, data: bytes) -> None:
        """Send one encoded message, in order with all others."""
        if not data:
            return
        if not self._in_turn:
            self._in_turn = True
            self._loop.call_soon(self._end_turn)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= FLUSH_BYTES:
            self.flush()

    def write_now(self, data: bytes) -> None:
        """Send an urgent message: the first of a loop turn is sent at once, not at the end of the turn."""
        if self._wrote_now:
            self.write(data)
            return
        self._wrote_now = True
        self._out.append(data)
        try:
            self.flush()
        finally:  # only now: the host is at work already
            if not self._in_turn:
                self._in_turn = True
                self._loop.call_soon(self._end_turn)

    def write_later(self, data: bytes) -> None:
        """Send a message that nobody waits for, in order with all others."""
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= FLUSH_BYTES:
            self.flush()
        if not self._in_no_hurry:
            self._in_no_hurry = True
            if self._turns == 0:
                self._turns = 1
                self._loop.call_soon(self._end_turn_later)

    def _end_turn_later(self) -> None:
        if self._in_no_hurry and self._turns < TURNS_TOGETHER:
            self._in_no_hurry = False
            self._turns += 1
            self._loop.call_soon(self._end_turn_later)
        else:
            self._in_no_hurry, self._turns = False, 0
            self.flush()

    def _end_turn(self) -> None:
        self._in_turn = self._wrote_now = False
        self.flush()

    def flush(self) -> None:
        """Pass all written messages to the transport."""
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            self._transport.write(data)

    async def turn(self) -> None:
        """Let other tasks run, and wait while the host does not read."""
        await asyncio.sleep(0)
        await self._transport.drain()

    @property
    def model_door(self) -> ModelDoor:
        """The model door of this connection's runs; made when it is first asked for."""
        if self._door is None:
            from hostler_sdk.model_door.door import ModelDoor  # noqa: PLC0415 - few plugins use it

            self._door = ModelDoor()
        return self._door

    def spend_credit(self, run_id: str) -> bool:
        """Use the credit of one result. Return False if there is none."""
        return self._link.spend_credit(run_id)

    # -- messages of the host --------------------------------------------------------------------

    def _take(self, events: Iterable[Incoming]) -> None:
        for event in events:
            match event:
                case Replied(id=id_, method=method, result=result):
                    self._asker(method).replied(id_, result)
                case StreamArrived(id=id_, chunk=chunk):
                    self.calls.piece(id_, chunk)
                case Refused(id=id_, method=method, error=error):
                    self._asker(method).refused(id_, error)
                case Noted(params=params):
                    self._take_note(params)
                case Called():
                    self._take_request(event)
                case CallCancelled():
                    pass  # the answer of a request given up is dropped by the link
                case Warned(reason=reason):
                    logger.warning("%s", reason)
                case Broken(reason=reason):
                    if not self._gone:
                        logger.error("the connection to the host is broken: %s", reason)
                    self._end(reason)
                case _:  # results and run ends never come from a host: the link refuses them
                    logger.warning("ignored: %s", type(event).__name__)
        self.write(self._link.data_to_send())

    def _take_request(self, request: Called) -> None:
        try:
            match request.params:
                case InitializeParams():
                    # the link has refused other versions
                    self.takes_reasoning = request.params.reasoning
                    self.write(self._link.reply(request.id, self._offer()))
                case RunStartParams():
                    self._start(request.params)
                    self.write(self._link.reply(request.id, NoParams()))
                case ToolInvokeParams() | ToolLookupParams():
                    self._keep(self._tools.take(request))
                case _ if request.method == "tools/list":
                    self.write(self._link.reply(request.id, self._tools.listed()))
                case _ if request.method == "runners/list":
                    manifests = [raw(offered.manifest) for offered in self.plugin.runners.values()]
                    self.write(self._link.reply(request.id, RunnerList(runners=manifests)))
                case _ if request.method.startswith("channel"):
                    self._take_channel_request(request)
                case _ if request.method == "shutdown":
                    self._shutdown_id = request.id
                    if self._channels is not None:
                        self._channels.drain()
                    self._leave_when_drained()
                case _:  # ping
                    self.write(self._link.reply(request.id, NoParams()))
        except HostlerError as error:
            self.write(self._link.refuse(request.id, error))

    def _served_channels(self) -> ServedChannels | None:
        if not self.plugin.channels:
            return None
        from hostler_sdk.channels.served import ServedChannels  # noqa: PLC0415 - few plugins use it

        return ServedChannels(self.plugin.channels, self._link, self.write, self._leave_when_drained)

    def _asker(self, method: str) -> CallTable | ServedChannels:
        """Return who made a request."""
        return self._channels if self._channels is not None and method.startswith("ingest/") else self.calls

    def _take_channel_request(self, request: Called) -> None:
        if self._channels is None:
            raise NotFoundError("this plugin offers no channel")
        if request.method == "channels/list":
            self.write(self._link.reply(request.id, self._channels.listed()))
        else:
            self._keep(self._channels.take(request))

    def _offer(self) -> InitializeReply:
        return InitializeReply(
            protocol=PROTOCOL_VERSION,
            plugin=self.plugin.identity,
            tools=bool(self._tools),
            ahead=True,
            channels=self._channels is not None,
        )

    def _start(self, params: RunStartParams) -> None:
        run_id = params.context.run_id
        offered = self.plugin.runners.get(params.runner_name)
        if offered is None or offered.manifest.id != params.runner_id:
            known = ", ".join(one.manifest.id for one in self.plugin.runners.values())
            raise NotFoundError(f"there is no runner {params.runner_id!r} here; this plugin offers {known}")
        execution = RunExecution(offered.runner, params, self)
        self._runs[run_id] = execution
        task = self._loop.create_task(self._execute(execution), name=f"run {run_id}")
        execution.task = task
        self._keep(task)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, execution: RunExecution) -> None:
        await execution.run()
        if self._forget(execution) and self._may_send():
            self.write(self._link.notify("run/end", RunEndNote(run_id=execution.run_id)))
        execution.close()  # tasks that the runner left behind can send nothing more
        self._leave_when_drained()

    def _take_note(self, note: Any) -> None:
        if isinstance(note, ToolCancelNote):
            self._tools.cancel(note.id)
            return
        execution = self._runs.get(note.run_id)
        if execution is None:
            return  # it ended while the note was on its way
        match note:
            case RunAheadNote():
                execution.answered_ahead(note)
            case RunCreditNote():
                execution.credited()
            case RunCancelNote():
                execution.cancel()
                self._loop.call_later(CANCEL_GRACE_SECONDS, self._give_up, execution)
            case RunParkNote():
                self._fence(execution)

    def _give_up(self, execution: RunExecution) -> None:
        """Send `run/end` for a runner that did not stop in time after its cancellation, and fence it."""
        if self._runs.get(execution.run_id) is execution and self._may_send():
            self.write(self._link.notify("run/end", RunEndNote(run_id=execution.run_id)))
        self._fence(execution)

    def _fence(self, execution: RunExecution) -> None:
        if self._forget(execution):
            self._link.end_run(execution.run_id)
            execution.fence()
            self._leave_when_drained()

    def _forget(self, execution: RunExecution) -> bool:
        """Remove an attempt. Return False if it is not there, or another attempt of the run is."""
        if self._runs.get(execution.run_id) is not execution:
            return False
        del self._runs[execution.run_id]
        return True

    def _may_send(self) -> bool:
        return self._link.state in (State.READY, State.DRAINING)

    # -- the end ---------------------------------------------------------------------------------

    def _leave_when_drained(self) -> None:
        at_work = self._runs or len(self._tools) or (self._channels is not None and self._channels.at_work)
        if self._shutdown_id is not None and not at_work and not self.closed.is_set():
            self.write(self._link.reply(self._shutdown_id, NoParams()))
            self._end("")

    def _end(self, reason: str) -> None:
        if self.closed.is_set():
            return
        self.reason = reason
        for execution in list(self._runs.values()):
            execution.fence()
        self._runs.clear()
        self._tools.close()
        if self._channels is not None:
            self._channels.close()
        self.calls.lost()
        if self._door is not None:
            self._door.close()
        self.flush()
        self.closed.set()

    async def stopped(self, seconds: float) -> bool:
        """Wait until the code of all runs has ended, for at most `seconds`. Return whether it has."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)
        return not self._tasks
