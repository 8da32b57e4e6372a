"""The host's side of a connection to a plugin, with calls answered by a `World`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler_protocol.calls import CALLS, CallParams
from hostler_protocol.channels import IngestHealthNote
from hostler_protocol.errors import HostlerError, PluginProtocolError, from_fault
from hostler_protocol.events import AgentRunContext
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import (
    Broken,
    CallCancelled,
    Called,
    Incoming,
    Noted,
    Refused,
    Replied,
    ResultArrived,
    RunBroken,
    RunEnded,
    StreamArrived,
    Warned,
)
from hostler_protocol.json_values import fields_problem
from hostler_protocol.limits import PROTOCOL_VERSION
from hostler_protocol.link import Link
from hostler_protocol.methods import (
    HostIdentity,
    InitializeParams,
    InitializeReply,
    RunCancelNote,
    RunCreditNote,
    RunStartParams,
    Side,
    VersionRange,
)
from hostler_protocol.results import AgentRunResult
from hostler_sdk.errors import HostError, InvalidArgument, RuntimeFailure
from hostler_sdk.scripted.ingest import ScriptedIngest
from hostler_sdk.scripted.scripts import chunks_of
from hostler_sdk.scripted.world import World


@dataclass(slots=True)
class HostCall:
    """One Host API call as the host received it, with its reply or error."""

    method: str
    params: Any
    reply: Any = None
    error: HostError | None = None
    given_up: bool = False
    after: int = 0
    """Number of results that the run had sent before the call."""


@dataclass(slots=True)
class ObservedRun:
    """One run as the host sees it: its results, calls and end so far."""

    context: AgentRunContext
    results: list[AgentRunResult] = field(default_factory=list)
    calls: list[HostCall] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ended: bool = False
    broken: tuple[str, str] | None = None
    """(code, reason), if the run broke the protocol."""
    grants_credit: bool = True
    """Whether the host credits each result that it receives."""

    @property
    def over(self) -> bool:
        """Whether the run has ended or broken the protocol."""
        return self.ended or self.broken is not None


class HostSession:
    """One connection of a scripted host. `write` takes the bytes to send to the plugin."""

    def __init__(self, write: Callable[[bytes], None], world: World) -> None:
        self.world = world
        self.link = Link(Side.HOST)
        self.runs: dict[str, ObservedRun] = {}
        self.warnings: list[str] = []
        self.offers_tools = False
        """`tools` of the answer to `initialize`."""
        self.offers_channels = False
        """`channels` of the answer to `initialize`."""
        self.ingest = ScriptedIngest()
        """What channels delivered."""
        self.lost_because: str | None = None
        self._write = write
        self._requests: dict[MessageId, asyncio.Future[Any]] = {}
        self._answering: dict[MessageId, tuple[asyncio.Task[None], HostCall]] = {}
        self._changed: list[asyncio.Future[None]] = []

    # -- what the host does ----------------------------------------------------------------------

    async def initialize(
        self, lowest: int = PROTOCOL_VERSION, highest: int = PROTOCOL_VERSION
    ) -> InitializeReply:
        """Send `initialize`, and return the answer."""
        params = InitializeParams(
            protocol=VersionRange(min=lowest, max=highest),
            host=HostIdentity(name="hostler-scripted", version="0.1.0"),
            reasoning=True,
        )
        reply: InitializeReply = await self.request("initialize", params)
        self.offers_tools = reply.tools
        self.offers_channels = reply.channels
        return reply

    async def request(self, method: str, params: Any) -> Any:
        """Make a request and return its answer. Raises HostlerError if it is refused or never answered."""
        if self.lost_because is not None:
            raise PluginProtocolError(f"the connection is lost: {self.lost_because}")
        id_, data = self.link.request(method, params)
        answer = self._requests[id_] = asyncio.get_running_loop().create_future()
        self._write(data)
        try:
            return await answer
        finally:
            self._requests.pop(id_, None)

    async def start(self, params: RunStartParams, *, grants_credit: bool = True) -> ObservedRun:
        """Start a run, and return its record, which is updated as the run goes on."""
        run = self.runs[params.context.run_id] = ObservedRun(params.context, grants_credit=grants_credit)
        await self.request("run/start", params)
        return run

    def credit(self, run_id: str, results: int = 1) -> None:
        """Let a run send further results."""
        self._write(self.link.notify("run/credit", RunCreditNote(run_id=run_id, results=results)))

    def cancel(self, run_id: str, reason: str = "cancelled") -> None:
        """Cancel a run."""
        self._write(self.link.notify("run/cancel", RunCancelNote(run_id=run_id, reason=reason)))

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached()` is true. Raises PluginProtocolError if the connection is lost first."""
        while not reached():
            if self.lost_because is not None:
                raise PluginProtocolError(f"the connection is lost: {self.lost_because}")
            news = asyncio.get_running_loop().create_future()
            self._changed.append(news)
            await news

    # -- what the plugin says --------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Take bytes from the plugin."""
        self._take(self.link.receive(data))

    def lost(self, reason: str) -> None:
        """The transport is gone."""
        self._take(self.link.close(reason))

    async def aclose(self) -> None:
        """Stop answering calls."""
        tasks = [task for task, _ in self._answering.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, events: Iterable[Incoming]) -> None:
        for event in events:
            self._take_one(event)
            changed, self._changed = self._changed, []
            for news in changed:
                if not news.done():
                    news.set_result(None)
        if data := self.link.data_to_send():
            self._write(data)

    def _take_one(self, event: Incoming) -> None:
        match event:
            case Replied(id=id_, result=result):
                self._settle(id_, result, None)
            case Refused(id=id_, error=error):
                self._settle(id_, None, error)
            case ResultArrived() | RunEnded() | RunBroken():
                self._take_run_event(event)
            case Called(id=id_, method=method, params=params) if method.startswith("ingest/"):
                self._answer_ingest(id_, params)
            case Called(id=id_, method=method, params=params):
                self._answer(id_, method, params)
            case Noted(params=IngestHealthNote() as note):
                self.ingest.health.append(note)
            case CallCancelled(id=id_):
                self._give_up(id_)
            case Warned(reason=reason, run_id=run_id):
                self.warnings.append(reason)
                if run_id in self.runs:
                    self.runs[run_id].warnings.append(reason)
            case Broken(reason=reason):
                self._lose(reason)
            case Noted() | StreamArrived():
                self.warnings.append(f"unexpected: {type(event).__name__}")

    def _take_run_event(self, event: ResultArrived | RunEnded | RunBroken) -> None:
        match event:
            case ResultArrived(result=result):
                run = self.runs[result.run_id]
                run.results.append(result)
                if run.grants_credit:
                    self.credit(result.run_id)
            case RunEnded(run_id=run_id):
                self.runs[run_id].ended = True
            case RunBroken(run_id=run_id, code=code, reason=reason):
                self.runs[run_id].broken = (code, reason)

    def _settle(self, id_: MessageId, result: Any, error: HostlerError | None) -> None:
        answer = self._requests.get(id_)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def _lose(self, reason: str) -> None:
        self.lost_because = reason
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(PluginProtocolError(f"the connection is lost: {reason}"))

    # -- Host API calls --------------------------------------------------------------------------

    def _answer(self, id_: MessageId, method: str, params: CallParams) -> None:
        run = self.runs[params.run_id]
        call = HostCall(method.removeprefix("host/"), params, after=len(run.results))
        run.calls.append(call)
        task = asyncio.get_running_loop().create_task(self._answer_call(id_, call, run.context))
        self._answering[id_] = (task, call)
        task.add_done_callback(lambda _: self._answering.pop(id_, None))

    def _answer_ingest(self, id_: MessageId, params: Any) -> None:
        try:
            self._write(self.link.reply(id_, self.ingest.answer(params)))
        except HostlerError as error:
            self._write(self.link.refuse(id_, error))

    async def _answer_call(self, id_: MessageId, call: HostCall, given: AgentRunContext) -> None:
        try:
            reply = await self.world.answer(call.params, given, str(id_))
            problem = fields_problem(msgspec.structs.asdict(reply))
            if problem is not None:
                raise RuntimeFailure(f"the scripted answer to {call.method}: {problem}")
            if CALLS[call.method].chunk is not None:
                for chunk in chunks_of(reply):
                    self._write(self.link.stream(id_, chunk))
            call.reply = reply
            self._write(self.link.reply(id_, reply))
        except HostError as error:
            self._refuse(id_, call, error)
        except (TypeError, ValueError) as error:  # a scripted tool does not accept the parameters
            self._refuse(id_, call, InvalidArgument(f"{call.method}: {error}"))
        except Exception as error:  # noqa: BLE001 - a scripted tool may raise anything: the call fails with it
            self._refuse(id_, call, RuntimeFailure(f"{type(error).__name__}: {error}"))

    def _refuse(self, id_: MessageId, call: HostCall, error: HostError) -> None:
        call.error = error
        self._write(self.link.refuse(id_, from_fault(error.fault())))

    def _give_up(self, id_: MessageId) -> None:
        if (answering := self._answering.get(id_)) is not None:
            task, call = answering
            call.given_up = True
            task.cancel()
