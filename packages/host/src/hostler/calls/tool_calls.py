"""`tool.call`: an intent before the effect, the outcome after it, and what to do where there is none.

A tool that is not pure is asked only once its intent is durable, and its outcome is durable before the runner
hears of it. Found without an outcome, it goes by its class: pure and idempotent tools are asked again under
the same key, reconcilable ones are looked up, and of all others a person says what happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from hostler.calls.scope import CallScope
from hostler.calls.tool_artifacts import CallArtifacts
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.place import Place
from hostler.domain.recording import CallName
from hostler.domain.tool_pins import ToolPin
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.call_records import Intent, JournalledError, effect_key_of
from hostler.journal.run_log import RunLog
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.question import AskAgainError, Question, QuestionKind, Verdict, refusal_of
from hostler.secrets.known_values import redact_error
from hostler.storage.port import Tx
from hostler.storage.stores.journal import NewEntry
from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler.tools.port import Found, ToolInvocation, ToolService
from hostler_protocol.calls import ToolCallParams, ToolCallReply
from hostler_protocol.errors import HostlerError, NotFoundError, UnauthorizedError

MAX_TRIES = 3
"""How often a tool that may be asked again is asked, or looked up, before its outcome counts as unknown."""
FIRST_RETRY_SECONDS = 0.2
_REPEATABLE = frozenset({"pure", "idempotent"})

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class _Call:
    """One call. `arguments` are those that the tool gets."""

    record: CallRecord
    pin: ToolPin
    arguments: dict[str, Any]
    resolution: int = 0
    verdict: Verdict | None = None
    artifacts: CallArtifacts | None = None
    """The artifacts that the tool made in this request."""

    @property
    def name(self) -> CallName:
        return self.record.name

    @property
    def params(self) -> ToolCallParams:
        params: ToolCallParams = self.record.params
        return params

    @property
    def tool(self) -> str:
        return self.params.tool_name

    @property
    def is_pure(self) -> bool:
        return self.pin.effect == "pure"


@dataclass(eq=False)
class ToolCalls:
    """The tool calls of one attempt. `held` None: nobody can be asked on this host."""

    scope: CallScope
    journal: RunLog
    log: CallLog
    held: HeldCalls | None = None
    confirm: Callable[[], Awaitable[None]] | None = None
    """Awaited right before a tool is called; raises if this host may no longer do so."""
    begun: set[CallName] = field(default_factory=set)
    """Calls whose tools may have been called: they run to their end even if nobody waits for them."""
    _intents: int = 0
    """Intents that are durable, or may be."""
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _busy: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, record: CallRecord, intent: Intent | None) -> ToolCallReply:
        """Carry one call out. `intent`: what an earlier attempt journalled before it was lost.

        JournalledError: a refusal that is in the journal already. Any other HostlerError: the tool was not
        called, and the caller journals that.
        """
        name, params = record.name, record.params
        pin = self.scope.grant.tool_pins.get(params.tool_name)
        if pin is None:
            record.check = "grant"
            raise NotFoundError(f"tool {params.tool_name!r} is gone since this run began")
        call = _Call(record, pin, params.parameters)
        if intent is not None:
            return await self._to_its_end(name, self._go_on(call, intent))
        await self._check_arguments(call)
        if pin.client:
            return await self._by_client(call)
        rule = self.scope.grant.tool_approvals.get(call.tool)
        if rule is None:
            return await self._to_its_end(name, self._carry_out(call))
        while True:
            approved = await self._approved(call, rule)
            try:
                return await self._to_its_end(name, self._carry_out(approved))
            except AskAgainError:
                self.begun.discard(name)

    def asks_people(self, tool_name: str) -> bool:
        """Whether a call of this tool waits for a person, or for the client."""
        pin = self.scope.grant.tool_pins.get(tool_name)
        return tool_name in self.scope.grant.tool_approvals or (pin is not None and pin.client)

    @property
    def had_effects(self) -> bool:
        """Whether a tool that is not pure was called, or is about to be."""
        return self._intents > 0

    @property
    def under_way(self) -> bool:
        """Whether a tool is being asked, or an outcome written down."""
        return self._busy > 0

    async def quiet(self) -> None:
        """Wait until no tool is under way."""
        while self._busy:
            self._idle.clear()
            await self._idle.wait()

    def stop(self) -> None:
        """End with the attempt: cancel the tools at work, and write nothing more."""
        for task in list(self._tasks):
            task.cancel()

    async def _to_its_end(self, name: CallName, work: Coroutine[Any, Any, ToolCallReply]) -> ToolCallReply:
        """Finish the work even if the runner gives up, so that the outcome becomes known."""
        self.begun.add(name)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("run %s: a tool call ended with: %s", self.scope.run_id, error)

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._idle.set()

    async def _check_arguments(self, call: _Call) -> None:
        call.record.check = "arguments"
        await self._service(call).check(self.scope.workspace_id, call.tool, call.arguments)
        call.record.check = None

    # -- people -----------------------------------------------------------------------------------

    async def _by_client(self, call: _Call) -> ToolCallReply:
        verdict = await self._ask("client_tool", call)
        error = ToolFailedError.of(HostlerError(_sentence(verdict.result))) if verdict.is_error else None
        return await self._settle(replace(call, verdict=verdict), verdict.result, error)

    async def _approved(self, call: _Call, rule: ToolApprovalPolicy) -> _Call:
        """Return the call as people approved it."""
        verdict = await self._ask("approval", call, rule=rule)
        call = _decided(call, verdict)
        if verdict.arguments is None or verdict.arguments == call.arguments:
            return call
        edited = replace(call, arguments=verdict.arguments)
        try:
            await self._check_arguments(edited)
        except HostlerError as error:
            await self._settle(edited, None, error)
        return edited

    async def _ask(
        self,
        kind: QuestionKind,
        call: _Call,
        *,
        rule: ToolApprovalPolicy | None = None,
        reason: str | None = None,
        begun_under: str | None = None,
    ) -> Verdict:
        """The verdict that lets the call go on; DeniedError, ExpiredError, CancelledCallError otherwise."""
        call.record.check = "approval"
        if self.held is None:
            text = "needs a person or a client, and this host cannot ask anybody"
            raise UnauthorizedError(f"tool {call.tool!r} {text}")
        rule = rule or self.scope.grant.tool_approvals.get(call.tool)
        question = replace(_question(kind, call), rule=rule, begun_under=begun_under, reason=reason)
        verdict = await self.held.ask(question)
        refused = refusal_of(verdict, f"the call of {call.tool}")
        if refused is None:
            call.record.check = None
            return verdict
        if kind == "in_doubt" or verdict.settle is not None:
            await self._settle(replace(call, verdict=verdict), None, refused)
        raise refused

    # -- the ledger -------------------------------------------------------------------------------

    async def _go_on(self, call: _Call, intent: Intent) -> ToolCallReply:
        """Continue a call of an earlier attempt that was lost before it knew the outcome."""
        arguments = call.arguments if intent.arguments is None else intent.arguments
        call = replace(call, arguments=arguments, resolution=intent.resolution)
        lost = "the attempt that called it was lost before it knew the outcome"
        again = call.pin.effect in _REPEATABLE or call.pin.effect == "reconcilable"
        if call.pin.effect == "reconcilable" and await self._is_doubted(call):  # before the tool's own word
            with self._working():
                return await self._doubt(call, lost)
        if again and intent.pause_id is not None:  # decided then: this finds what goes with the outcome
            call = _decided(call, await self._ask("approval", call, begun_under=self._key(call)))
        with self._working():
            if not again:
                return await self._doubt(call, lost)
            if call.pin.effect == "reconcilable":
                found = await self._look_up(call)
                if isinstance(found, Found):
                    return await self._settle(call, found.result, None)
                if isinstance(found, HostlerError):
                    return await self._doubt(call, found.message)
            return await self._perform(call)

    async def _is_doubted(self, call: _Call) -> bool:
        return self.held is not None and await self.held.is_doubted(_question("in_doubt", call))

    async def _carry_out(self, call: _Call) -> ToolCallReply:
        with self._working():
            if not call.is_pure or call.verdict is not None:
                await self._intend(call)
            return await self._perform(call)

    async def _intend(self, call: _Call) -> None:
        """Make it durable that the tool is about to be asked. AskAgainError: it may not be any more."""
        name, verdict = call.name, call.verdict
        intent = Intent(
            method=name.method,
            digest=name.digest,
            nth=name.nth,
            call_id=name.call_id,
            params=call.params,
            tool_name=call.tool,
            effect=call.pin.effect,
            effect_key=self._key(call),
            arguments=None if call.arguments is call.params.parameters else call.arguments,
            resolution=call.resolution,
            pause_id=None if verdict is None else verdict.pause_id,
            approved_by=None if verdict is None else verdict.decided_by,
            similar_id=None if verdict is None else verdict.similar_id,
        )
        entry = NewEntry("intent", name.method, _encoder.encode(intent))

        def work(tx: Tx) -> tuple[NewEntry | None, HostlerError | None]:
            refused = None
            if verdict is not None and verdict.reserve is not None:
                refused = verdict.reserve(tx, intent.effect_key or "")
            return (None if refused else entry), refused

        self._intents += 1  # as soon as it may be durable
        refused = await self.journal.write(work)
        if refused is not None:
            self._intents -= 1
            raise refused

    async def _perform(self, call: _Call) -> ToolCallReply:
        """Ask the tool, its intent being durable; again, looked up or in doubt where no answer comes."""
        pause = FIRST_RETRY_SECONDS
        for last in (n == MAX_TRIES for n in range(1, MAX_TRIES + 1)):
            call = replace(call, artifacts=self._artifacts(call))
            try:
                result = await self._service(call).call(self._invocation(call))
            except OutcomeUnknownError as error:
                unknown = redact_error(error)
            except HostlerError as error:
                return await self._settle(call, None, redact_error(error))
            else:
                return await self._settle(call, result, None)
            if call.pin.effect == "reconcilable":
                found = await self._look_up(call)
                if isinstance(found, Found):
                    return await self._settle(call, found.result, None)
                if isinstance(found, HostlerError):
                    break
            elif call.pin.effect not in _REPEATABLE:
                break
            if not last:
                await asyncio.sleep(pause)
                pause *= 2
        if call.pin.effect in _REPEATABLE:
            return await self._settle(call, None, unknown)
        return await self._doubt(call, unknown.message)

    async def _look_up(self, call: _Call) -> Found | HostlerError | None:
        """Return the tool's record of the call, None if it has none, or the error if the look-up failed."""
        pause = FIRST_RETRY_SECONDS
        for last in (n == MAX_TRIES for n in range(1, MAX_TRIES + 1)):
            try:
                return await self._service(call).lookup(self._invocation(call))
            except HostlerError as error:
                if last:
                    return error
            await asyncio.sleep(pause)
            pause *= 2
        return None

    async def _doubt(self, call: _Call, reason: str) -> ToolCallReply:
        """Ask a person for an outcome that the host does not know."""
        while True:
            self._busy -= 1  # while people are asked nothing is under way
            self._idle.set()
            try:
                verdict = await self._ask("in_doubt", call, reason=reason)
            finally:
                self._busy += 1
            said = replace(call, verdict=verdict)
            if verdict.outcome != "not_happened":
                return await self._settle(said, verdict.result, None)
            # where the approval was asked for again meanwhile, its arguments may be others now
            same = verdict.arguments is None or verdict.arguments == call.arguments
            arguments = call.arguments if same else verdict.arguments or {}
            said = replace(said, resolution=call.resolution + 1, arguments=arguments)
            try:
                await self._intend(said)
            except AskAgainError:  # another call of the pause is looked at still
                continue
            return await self._perform(said)

    async def _settle(self, call: _Call, result: Any, error: HostlerError | None) -> ToolCallReply:
        """Write the outcome down; from then on it is never computed again. A large result is an artifact."""
        made = call.artifacts or self._artifacts(call)
        call.record.is_late = call.record.is_written
        if error is None:
            try:
                result = await made.within_limit(result)
            except HostlerError as too_large:
                error = ToolFailedError.of(too_large)
        makes = bool(made.made) and error is None
        verdict = call.verdict

        def settle(tx: Tx) -> HostlerError | None:
            refused = made.create(tx) if makes else None
            if verdict is not None and verdict.settle is not None:
                verdict.settle(tx, error or refused)
            return refused

        reply = ToolCallReply(result=result)
        if not call.is_pure or verdict is not None or makes:
            refused = await self.log.write_durable(call.record, None if error else reply, error, settle)
            error = error or refused
        else:
            self.log.write(call.record, reply=None if error else reply, error=error)
        if error is not None:
            await made.discard()
            raise JournalledError(error)
        if makes:
            made.announce()
        return reply

    # -- the tool ---------------------------------------------------------------------------------

    def _key(self, call: _Call) -> str:
        return effect_key_of(self.scope.run_id, call.name.call_id, call.arguments, call.resolution)

    def _artifacts(self, call: _Call) -> CallArtifacts:
        return CallArtifacts(self.scope, call.tool, call.name.call_id)

    def _invocation(self, call: _Call) -> ToolInvocation:
        grant = self.scope.grant
        return ToolInvocation(
            tool_name=call.tool,
            parameters=call.arguments,
            run_id=self.scope.run_id,
            call_id=call.name.call_id,
            effect_key=self._key(call),
            workspace_id=self.scope.workspace_id,
            pin=call.pin,
            actor=self.scope.event.envelope.actor,
            deadline=self.scope.deadline_at,
            confirm=self.confirm,
            agent_id=grant.agent_id,
            place=Place.of(grant),
            artifacts=call.artifacts,
        )

    def _service(self, call: _Call) -> ToolService:
        tools = self.scope.services.tools
        if tools is None:
            raise NotFoundError(f"tool {call.tool!r} is gone since this run began")
        return tools


def _decided(call: _Call, verdict: Verdict) -> _Call:
    """The call with what was decided of it; a tool that was approved anew is called as it is now."""
    return replace(call, verdict=verdict, pin=verdict.pin or call.pin)


def _question(kind: QuestionKind, call: _Call) -> Question:
    return Question(
        kind=kind,
        name=call.name,
        parameters=call.arguments,
        tool_name=call.tool,
        pin=call.pin,
        model_call_id=call.params.tool_call_id,
        resolution=call.resolution,
    )


def _sentence(result: Any) -> str:
    """Return a client's description of its failure as text."""
    return result if isinstance(result, str) else _encoder.encode(result).decode()
