"""Tests of runners without a host: `drive` runs one in memory, over the real protocol.

    driven = await drive(Echo, "hi", config={"suffix": "?"})
    assert driven.text == "hi?"

`drive_sync` is the same outside of an event loop; `ScriptedHost` keeps state and history over several
turns. `check_plugin` is the conformance suite for whole plugins of any language.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from hostler_protocol.calls import SteeringPullReply
from hostler_protocol.content import Message, Usage, text_of
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import (
    Actor,
    AgentRunContext,
    AvailableApis,
    ContextAccess,
    Conversation,
    EventRef,
    Input,
    Runtime,
    Trigger,
)
from hostler_protocol.ids import new_id
from hostler_protocol.json_values import fields_problem
from hostler_protocol.limits import CANCEL_GRACE_SECONDS
from hostler_protocol.manifest import AgentRunnerManifest, defaults_of
from hostler_protocol.methods import RunStartParams
from hostler_protocol.results import (
    RESULT_TYPES,
    AgentRunResult,
    ArtifactCreated,
    MessageCompleted,
    RunCompleted,
    RunFailed,
    StateUpdated,
    decode_data,
)
from hostler_sdk.client import HostConnection
from hostler_sdk.conformance import CheckResult, check_plugin
from hostler_sdk.errors import HostError
from hostler_sdk.plugin import Plugin, plugin_of
from hostler_sdk.results import Result
from hostler_sdk.runner import Runner
from hostler_sdk.scripted import HostCall, HostSession, ObservedRun, World

__all__ = [
    "CheckResult",
    "Driven",
    "HostCall",
    "ScriptedHost",
    "World",
    "check_plugin",
    "drive",
    "drive_sync",
]

DEFAULT_SECONDS = 30.0
"""Time that a driven run may take."""
_SAYS_NOTHING = frozenset({"message.delta", "log", "tool.call.started", "tool.call.completed"})

Status = Literal["completed", "failed", "cancelled", "paused"]


@dataclass(slots=True)
class Driven:
    """The outcome of a driven run.

    `results` are the results that the runner sent, in order; they are equal to those that `delta`, `message`
    and so on build. `calls` are its Host API calls, with `method`, `params` and `reply` or `error`. `code`
    and `error` of a run that failed. `warnings`: results that a host would have dropped, and why.

        driven = await drive(Echo, "hi")
        assert driven.status == "completed" and driven.results == [message("hi!")]
    """

    results: list[Result] = field(default_factory=list)
    calls: list[HostCall] = field(default_factory=list)
    status: Status = "completed"
    code: str | None = None
    error: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        """The completed messages."""
        found = (_message_in(result) for result in self.results)
        return [message for message in found if message is not None]

    @property
    def text(self) -> str:
        """The text of the completed messages, joined by line ends."""
        return "\n".join(text_of(message.content) for message in self.messages)


def _message_in(result: Result) -> Message | None:
    return result.data.message if isinstance(result.data, MessageCompleted | RunCompleted) else None


class ScriptedHost:
    """A host in memory. Its `world` (state, history, artifacts) persists from one driven run to the next.

    `scripts` are those of `World.script`.
    """

    def __init__(self, **scripts: Any) -> None:
        self.world = World(**scripts)

    async def drive(
        self,
        runner: type[Runner] | Runner,
        text: str | Input | Mapping[str, Any] | None = "",
        *,
        config: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        credit: int = 64,
        cancel_on: Callable[[Result], bool] | None = None,
        seconds: float = DEFAULT_SECONDS,
        **scripts: Any,
    ) -> Driven:
        """Run a runner once, and return the outcome. Raises TimeoutError if it has not ended after `seconds`.

        `config` overrides defaults of the runner's form, and `context` parts of the AgentRunContext (like
        `{"actor": {"actor_id": "ada"}}`). `credit` is the number of results sent without waiting for the
        host. `cancel_on` cancels the run at the first result for which it is true. `scripts` are those of
        `World.script`.
        """
        self.world.script(**scripts)
        plugin = _plugin(runner)
        (offered,) = plugin.runners.values()
        given = self._context(offered.manifest, text, config, context, seconds)
        start = RunStartParams(
            runner_id=offered.manifest.id, runner_name=offered.manifest.name, context=given, credit=credit
        )
        async with asyncio.timeout(seconds):
            run, cancelled = await self._run(plugin, start, cancel_on)
        driven = _judge(run, cancelled)
        self._keep(given, driven)
        return driven

    def drive_sync(
        self, runner: type[Runner] | Runner, text: str | Input | Mapping[str, Any] | None = "", **options: Any
    ) -> Driven:
        """Run a runner once, outside of an event loop. Options are those of `drive`."""
        return asyncio.run(self.drive(runner, text, **options))

    async def _run(
        self, plugin: Plugin, start: RunStartParams, cancel_on: Callable[[Result], bool] | None
    ) -> tuple[ObservedRun, bool]:
        loop = asyncio.get_running_loop()
        session = HostSession(lambda data: _deliver(loop, connection.received, data), self.world)
        connection = HostConnection(plugin, _Memory(loop, session))
        try:
            await session.initialize()
            run = await session.start(start)
            cancelled = await _watch(session, run, cancel_on)
            if cancelled and not run.over:
                session.cancel(run.context.run_id)
                await _within_grace(session, run)
        finally:
            connection.lost("the drive is over")
            await connection.stopped(1.0)
            await session.aclose()
        return run, cancelled

    def _context(
        self,
        manifest: AgentRunnerManifest,
        text: str | Input | Mapping[str, Any] | None,
        config: Mapping[str, Any] | None,
        overrides: Mapping[str, Any] | None,
        seconds: float,
    ) -> AgentRunContext:
        problem = fields_problem({"config": dict(config or {}), "context": dict(overrides or {})})
        if problem is not None:
            raise TypeError(f"drive(): {problem}")
        given = Input(text=text) if text is None or isinstance(text, str) else msgspec.convert(text, Input)
        apis = AvailableApis(**dict.fromkeys(AvailableApis.__struct_fields__, True))
        now = time.time()
        context = AgentRunContext(
            run_id=new_id(),
            trigger=Trigger(type="message.received", timestamp=now),
            event=EventRef(event_id=new_id(), event_type="message.received"),
            conversation=Conversation(conversation_id="conversation"),
            actor=Actor(actor_id="tester", actor_name="Tester"),
            input=given,
            resources=self.world.resources,
            context=ContextAccess(
                conversation_id="conversation",
                has_history_before=bool(self.world.history),
                available_apis=apis,
            ),
            state=self.world.snapshot,
            runtime=Runtime(host_version="scripted", trace_id="0" * 31 + "1", deadline_at=now + seconds),
            config=defaults_of(manifest.config_schema) | dict(config or {}),
        )
        if overrides is None:
            return context
        return msgspec.convert(
            msgspec.to_builtins(context) | msgspec.to_builtins(dict(overrides)), AgentRunContext
        )

    def _keep(self, given: AgentRunContext, driven: Driven) -> None:
        """Store history, state and artifacts, as a host does."""
        self._remember(given, driven)
        for result in driven.results:
            data = result.data
            if isinstance(data, StateUpdated):
                try:
                    self.world.set_state(data.scope, data.key, data.value)
                except HostError as error:
                    driven.warnings.append(f"state.updated: {error.message}")
            elif isinstance(data, ArtifactCreated) and data.content_base64 is not None:
                content = base64.b64decode(data.content_base64)
                self.world.artifacts.add(
                    given.run_id,
                    content,
                    artifact_type=data.artifact_type,
                    mime_type=data.mime_type,
                    name=data.name,
                    metadata=data.metadata,
                )

    def _remember(self, given: AgentRunContext, driven: Driven) -> None:
        """Add the messages to the history. A pulled message comes after the results sent before its pull."""
        if given.input.text:
            self.world.remember("user", given.input.text, event_id=given.event.event_id)
        pulled = [
            (call.after, item)
            for call in driven.calls
            if isinstance(call.reply, SteeringPullReply)
            for item in call.reply.items
        ]
        for number in range(len(driven.results) + 1):
            while pulled and (pulled[0][0] <= number or number == len(driven.results)):
                item = pulled.pop(0)[1]
                text = item.input.text or text_of(item.input.contents)
                self.world.remember("user", text, event_id=item.event.event_id)
            if number < len(driven.results) and (message := _message_in(driven.results[number])) is not None:
                self.world.remember("assistant", message.content, message.artifact_refs)


async def drive(
    runner: type[Runner] | Runner, text: str | Input | Mapping[str, Any] | None = "", **options: Any
) -> Driven:
    """Run a runner once against a new scripted host.

    Options are those of `ScriptedHost.drive` (`config`, `context`, `credit`, `cancel_on`, `seconds`) and of
    `World.script` (`models`, `tools`, `knowledge`, `history`, `states`, `steering`, `decisions`, `agents`,
    `files`, `prompt`).
    """
    return await ScriptedHost().drive(runner, text, **options)


def drive_sync(
    runner: type[Runner] | Runner, text: str | Input | Mapping[str, Any] | None = "", **options: Any
) -> Driven:
    """Like `drive`, outside of an event loop."""
    return asyncio.run(drive(runner, text, **options))


async def _watch(session: HostSession, run: ObservedRun, cancel_on: Callable[[Result], bool] | None) -> bool:
    """Follow a run to its end, or to the result that cancels it. Return whether it is to be cancelled."""
    seen = 0

    def news() -> bool:
        return run.over or len(run.results) > seen

    while not run.over or seen < len(run.results):
        await session.until(news)
        for arrived in run.results[seen:]:
            seen += 1
            result = None if cancel_on is None else _decoded(arrived)
            if result is not None and cancel_on is not None and cancel_on(result):
                return True
    return False


class _Memory:
    """The plugin's transport: passes bytes to the session in the next turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, session: HostSession) -> None:
        self._loop = loop
        self._session = session

    def write(self, data: bytes) -> None:
        _deliver(self._loop, self._session.received, data)

    async def drain(self) -> None:
        """Return at once: credit bounds the results in memory, and the link the calls."""


def _deliver(loop: asyncio.AbstractEventLoop, receive: Callable[[bytes], None], data: bytes) -> None:
    loop.call_soon(receive, data)


def _plugin(runner: type[Runner] | Runner) -> Plugin:
    if isinstance(runner, type) and issubclass(runner, Runner):
        return plugin_of(runner())
    if isinstance(runner, Runner):
        return plugin_of(runner)
    raise TypeError(f"drive() takes a class derived from Runner, or an instance of one, not {runner!r}")


async def _within_grace(session: HostSession, run: ObservedRun) -> None:
    try:
        async with asyncio.timeout(CANCEL_GRACE_SECONDS):
            await session.until(lambda: run.over)
    except TimeoutError:
        run.warnings.append(f"the runner did not stop within {CANCEL_GRACE_SECONDS} s of its cancellation")


def _decoded(arrived: AgentRunResult, warnings: list[str] | None = None) -> Result | None:
    """Decode a result as a host does. Return None, and add a warning, if the payload is invalid."""
    if arrived.type not in RESULT_TYPES:
        return Result(arrived.type, msgspec.json.decode(arrived.data), arrived.usage)
    try:
        return Result(arrived.type, decode_data(arrived.type, arrived.data), arrived.usage)
    except InvalidArgumentError as error:
        if warnings is not None:
            warnings.append(f"result {arrived.sequence} dropped: {error.message}")
        return None


def _judge(run: ObservedRun, cancelled: bool) -> Driven:
    """Derive the outcome of a run, as a host does."""
    driven = Driven(calls=run.calls, warnings=list(run.warnings))
    ending: Result | None = None
    for arrived in run.results:
        result = _decoded(arrived, driven.warnings)
        if result is None:
            continue
        driven.results.append(result)
        driven.usage = result.usage or driven.usage
        if result.ends_attempt:
            ending = result
            break
    if cancelled and ending is None:
        driven.status, driven.code, driven.error = "cancelled", "cancelled", "the run was cancelled"
    elif run.broken is not None and ending is None:
        driven.status, (driven.code, driven.error) = "failed", run.broken
    elif ending is None and all(result.type in _SAYS_NOTHING for result in driven.results):
        driven.status, driven.code = "failed", "runner.no_output"
        driven.error = "the runner finished without a message or another result that lasts"
    elif ending is not None and ending.type == "run.paused":
        driven.status = "paused"
    elif ending is not None and isinstance(ending.data, RunFailed):
        driven.code, driven.error = ending.data.code, ending.data.error
        driven.status = "cancelled" if driven.code == "cancelled" else "failed"
    else:
        done = ending.data if ending is not None and isinstance(ending.data, RunCompleted) else RunCompleted()
        driven.finish_reason = done.finish_reason
    return driven
