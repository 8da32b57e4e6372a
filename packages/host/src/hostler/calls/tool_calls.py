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
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.calls.actions import decide_action, decide_arguments, record_action
from hostler.calls.scope import CallScope
from hostler.calls.tool_arguments import PlatformCall, platform_call
from hostler.calls.tool_artifacts import CallArtifacts
from hostler.calls.tool_call import ToolCall
from hostler.calls.tool_tries import ToolTries
from hostler.domain.action_decisions import ActionDecision
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.place import Place
from hostler.domain.platform_actions import PLATFORM_ACTIONS
from hostler.domain.recording import CallName
from hostler.domain.tool_pins import ToolPin
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.call_records import Intent, JournalledError, effect_key_of
from hostler.journal.run_log import RunLog
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.question import AskAgainError, QuestionKind, Verdict, refusal_of
from hostler.storage.port import Tx
from hostler.storage.stores.journal import NewEntry
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.platform import action_pin
from hostler.tools.port import Found, ToolInvocation, ToolService, present_tool
from hostler_protocol.calls import ActionReply, ToolCallReply
from hostler_protocol.errors import HostlerError, NotFoundError, UnauthorizedError

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()
ToolReply = ToolCallReply | ActionReply
"""The reply of `tool.call`, or of `action.request`."""


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
    _tasks: dict[asyncio.Task[ToolReply], CallName] = field(default_factory=dict)
    _busy: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, record: CallRecord, intent: Intent | None) -> ToolReply:
        """Carry one call out. `intent`: what an earlier attempt journalled before it was lost.

        JournalledError: a refusal that is in the journal already. Any other HostlerError: the tool was not
        called, and the caller journals that.
        """
        name, action = record.name, platform_call(record)
        if action is None:
            call = ToolCall(record, self._granted_pin(record), record.params.parameters)
        elif action.name not in PLATFORM_ACTIONS:
            return await self._turned_down(record, action, await self._decide(record, action))
        else:
            call = ToolCall(record, action_pin(action.name), {}, action)
        if intent is not None:
            return await self._to_its_end(name, self._go_on(call, intent))
        if action is not None:
            decision = await self._decide(record, action)
            if decision.verdict in {"refused", "unsupported"}:
                return await self._turned_down(record, action, decision)
            call = replace(call, arguments=decision.arguments)
        else:
            await self._check_arguments(call)
        if call.pin.client:
            return await self._by_client(call)
        rule = self.scope.grant.tool_approvals.get(call.tool)
        if rule is None:
            return await self._to_its_end(name, self._carry_out(call))
        while True:
            approved = await self._approved(call, rule)
            try:
                return await self._to_its_end(name, self._carry_out(approved))
            except AskAgainError:
                continue

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

    def withdraw_if_not_called(self, name: CallName, withdraw: Callable[[], None]) -> None:
        """Withdraw a call that was given up while its tool was started, if people would be asked again.

        `withdraw` is called once that turns out, or never. Nobody waits for that question, and new ones would
        wait for this call until the attempt ends.
        """

        def ended(task: asyncio.Task[ToolReply]) -> None:
            if not task.cancelled() and isinstance(task.exception(), AskAgainError):
                withdraw()

        for task, of in self._tasks.items():
            if of == name:
                task.add_done_callback(ended)

    async def _to_its_end(self, name: CallName, work: Coroutine[Any, Any, ToolReply]) -> ToolReply:
        """Finish the work even if the runner gives up, so that the outcome becomes known."""
        self.begun.add(name)
        task = asyncio.create_task(work)
        self._tasks[task] = name
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[ToolReply]) -> None:
        name = self._tasks.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, AskAgainError):
                self.begun.discard(name)
            log.debug("run %s: a tool call ended with: %s", self.scope.run_id, error)

    @contextmanager
    def _working(self) -> Iterator[None]:
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._idle.set()

    async def _check_arguments(self, call: ToolCall) -> None:
        call.record.check = "arguments"
        await self._service(call).check(self.scope.workspace_id, call.tool, call.arguments)
        call.record.check = None

    def _granted_pin(self, record: CallRecord) -> ToolPin:
        pin = self.scope.grant.tool_pins.get(record.params.tool_name)
        if pin is None:
            record.check = "grant"
            raise NotFoundError(f"tool {record.params.tool_name!r} is gone since this run began")
        return pin

    async def _decide(
        self, record: CallRecord, action: PlatformCall, arguments: dict[str, Any] | None = None
    ) -> ActionDecision:
        """Decide on a platform action; `arguments`: as people have edited them."""
        record.check = "grant"
        scope, asked = self.scope, action.params

        def read(tx: Tx) -> ActionDecision:
            if arguments is None and asked is not None:
                return decide_action(tx, scope, action.name, asked.target, asked.payload)
            given = record.params.parameters if arguments is None else arguments
            return decide_arguments(tx, scope, action.name, given)

        decision = await scope.services.db.read(read)
        record.check = None
        return decision

    async def _turned_down(
        self, record: CallRecord, action: PlatformCall, decision: ActionDecision
    ) -> ToolReply:
        """Record that an action is refused, or unsupported, and answer so."""
        refused = decision.verdict == "refused"
        asked = action.params
        given = decision.arguments or ({} if asked is not None else record.params.parameters)

        def settle(tx: Tx) -> None:
            record_action(tx, self.scope, decision.verdict, asked or (action.name, given), decision.reason)

        error = (
            UnauthorizedError(f"{action.name} was not carried out: {decision.reason}") if refused else None
        )
        if refused:
            record.check = "grant"
        reply = action.reply("unsupported", reason=decision.reason)
        await self.log.write_durable(record, None if refused else reply, error, settle)
        if error is not None:
            raise JournalledError(error)
        return reply

    # -- people -----------------------------------------------------------------------------------

    async def _by_client(self, call: ToolCall) -> ToolReply:
        verdict = await self._ask("client_tool", call)
        error = ToolFailedError.of(HostlerError(_sentence(verdict.result))) if verdict.is_error else None
        return await self._settle(replace(call, verdict=verdict), verdict.result, error)

    async def _approved(self, call: ToolCall, rule: ToolApprovalPolicy) -> ToolCall:
        """Return the call as people approved it."""
        verdict = await self._ask("approval", call, rule=rule)
        call = call.decided(verdict)
        if verdict.arguments is None or verdict.arguments == call.arguments:
            return call
        edited = replace(call, arguments=verdict.arguments)
        try:
            if call.action is None:
                await self._check_arguments(edited)
            else:
                decision = await self._decide(call.record, call.action, edited.arguments)
                if decision.verdict in {"refused", "unsupported"}:
                    raise UnauthorizedError(f"{call.action.name} was not carried out: {decision.reason}")
                edited = replace(edited, arguments=decision.arguments)
        except HostlerError as error:
            await self._settle(edited, None, error)
        return edited

    async def _ask(
        self,
        kind: QuestionKind,
        call: ToolCall,
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
        question = replace(call.question(kind), rule=rule, begun_under=begun_under, reason=reason)
        verdict = await self.held.ask(question)
        refused = refusal_of(verdict, f"the call of {call.tool}")
        if refused is None:
            call.record.check = None
            return verdict
        if kind == "in_doubt" or verdict.settle is not None:
            await self._settle(replace(call, verdict=verdict), None, refused)
        raise refused

    # -- the ledger -------------------------------------------------------------------------------

    async def _go_on(self, call: ToolCall, intent: Intent) -> ToolReply:
        """Continue a call of an earlier attempt that was lost before it knew the outcome."""
        arguments = call.arguments if intent.arguments is None else intent.arguments
        call = replace(call, arguments=arguments, resolution=intent.resolution)
        lost = "the attempt that called it was lost before it knew the outcome"
        again = call.may_be_repeated or call.pin.effect == "reconcilable"
        if call.pin.effect == "reconcilable" and await self._is_doubted(call):  # before the tool's own word
            with self._working():
                return await self._doubt(call, lost)
        if again and intent.pause_id is not None:  # decided then: this finds what goes with the outcome
            call = call.decided(await self._ask("approval", call, begun_under=self._key(call)))
        with self._working():
            if not again:
                return await self._doubt(call, lost)
            if call.pin.effect == "reconcilable":
                found = await self._tries().look_up(call)
                if isinstance(found, Found):
                    return await self._settle(call, found.result, None)
                if isinstance(found, HostlerError):
                    return await self._doubt(call, found.message)
            return await self._perform(call)

    async def _is_doubted(self, call: ToolCall) -> bool:
        return self.held is not None and await self.held.is_doubted(call.question("in_doubt"))

    async def _carry_out(self, call: ToolCall) -> ToolReply:
        with self._working():
            await self._check_approved(call)
            if not call.is_pure or call.verdict is not None:
                await self._intend(call)
            return await self._perform(call)

    async def _check_approved(self, call: ToolCall) -> None:
        """Start a tool that was approved as it was seen last. AskAgainError: it came back as another."""
        definition = None if call.verdict is None else call.verdict.definition
        if definition is None or self.held is None:
            return
        tools = self._service(call)
        try:
            with self.held.going_on(call.name.call_id):
                await tools.prepare(self._invocation(call))
        except ToolChangedError as changed:
            now = present_tool(tools, self.scope.workspace_id, call.tool)
            if now is None or now.definition != definition:
                raise AskAgainError(changed.message) from changed
        except HostlerError:
            log.debug("run %s: a tool that was approved cannot be prepared", self.scope.run_id)  # nor called

    async def _intend(self, call: ToolCall) -> None:
        """Make it durable that the tool is about to be asked. AskAgainError: it may not be any more."""
        name, verdict = call.name, call.verdict
        intent = Intent(
            method=name.method,
            digest=name.digest,
            nth=name.nth,
            call_id=name.call_id,
            params=call.record.params,
            tool_name=call.tool,
            effect=call.pin.effect,
            effect_key=self._key(call),
            arguments=None if call.arguments is call.proposed else call.arguments,
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

    async def _perform(self, call: ToolCall) -> ToolReply:
        """Ask the tool, its intent being durable."""
        answer = await self._tries().ask(call)
        if answer.doubt is not None:
            return await self._doubt(answer.call, answer.doubt)
        return await self._settle(answer.call, answer.result, answer.error)

    async def _doubt(self, call: ToolCall, reason: str) -> ToolReply:
        """Ask a person for an outcome that the host does not know."""
        while True:
            self._busy -= 1  # while people are asked nothing is under way
            self._idle.set()
            try:
                verdict = await self._ask("in_doubt", call, reason=reason)
            finally:
                self._busy += 1
            said = call.decided(verdict)
            if verdict.outcome != "not_happened":
                return await self._settle(said, verdict.result, None)
            # where the approval was asked for again meanwhile, its arguments may be others now
            same = verdict.arguments is None or verdict.arguments == call.arguments
            arguments = call.arguments if same else verdict.arguments or {}
            said = replace(said, resolution=call.resolution + 1, arguments=arguments)
            try:
                await self._check_approved(said)
                await self._intend(said)
            except AskAgainError:  # or another call of the pause is looked at still
                continue
            return await self._perform(said)

    async def _settle(self, call: ToolCall, result: Any, error: HostlerError | None) -> ToolReply:
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

        reply: ToolReply = ToolCallReply(result=result)
        if call.action is not None:
            reply = call.action.reply("done", result)
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

    def _tries(self) -> ToolTries:
        return ToolTries(self._service, self._invocation, self._artifacts)

    def _key(self, call: ToolCall) -> str:
        return effect_key_of(self.scope.run_id, call.name.call_id, call.arguments, call.resolution)

    def _artifacts(self, call: ToolCall) -> CallArtifacts:
        return CallArtifacts(self.scope, call.tool, call.name.call_id)

    def _invocation(self, call: ToolCall) -> ToolInvocation:
        grant = self.scope.grant
        return ToolInvocation(
            tool_name=call.tool,
            parameters=call.arguments,
            run_id=self.scope.run_id,
            call_id=call.name.call_id,
            effect_key=self._key(call),
            workspace_id=self.scope.workspace_id,
            pin=call.pin,
            definition=None if call.verdict is None else call.verdict.definition,
            actor=self.scope.event.envelope.actor,
            deadline=self.scope.deadline_at,
            confirm=self.confirm,
            agent_id=grant.agent_id,
            place=Place.of(grant),
            artifacts=call.artifacts,
        )

    def _service(self, call: ToolCall) -> ToolService:
        tools = self.scope.services.tools
        if tools is None:
            raise NotFoundError(f"tool {call.tool!r} is gone since this run began")
        return tools


def _sentence(result: Any) -> str:
    """Return a client's description of its failure as text."""
    return result if isinstance(result, str) else _encoder.encode(result).decode()
