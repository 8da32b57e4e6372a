"""The Host API calls of one attempt: gate, recording, work, journal, answer.

A call that the recording of an earlier attempt holds is answered from it. A call that changes something in
the host is carried out in the transaction that journals it; tools have their intents (tool_calls.py). Reads
are journalled without waiting for the commit. Calls and results share the run's one order, and so do the
answers: of calls made at once the one is answered first whose outcome comes first in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from hostler.calls.answers_ahead import AnswersAhead, SendAhead
from hostler.calls.functions import CALL_FUNCTIONS, LEDGER_CALLS, SEES_RUNS, STREAM_FUNCTIONS
from hostler.calls.gate import AdmittedCall, Gate, GatedRun, refusing_check
from hostler.calls.in_progress import CallInProgress, ExternalCaller, Requester
from hostler.calls.interactions import ask
from hostler.calls.needs import note_error, note_reply, within_reservation
from hostler.calls.recorded_answers import answer_again, answer_inherited, repeat
from hostler.calls.scope import CallScope, Charged, Effect
from hostler.calls.tool_arguments import TOOL_METHODS, tool_of
from hostler.calls.tool_calls import ToolCalls
from hostler.domain.call_checks import CallCheck
from hostler.domain.platform_actions import PLATFORM_ACTIONS
from hostler.domain.recording import CallName, RecordedCall, external_call_number, is_effect
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.call_records import (
    Intent,
    JournalledError,
    answer_of,
    chunk_record,
    intent_of,
    refusal_entry,
)
from hostler.journal.fork import Inherited, check_effects
from hostler.journal.resume import Resumption
from hostler.journal.run_log import RunLog
from hostler.pauses.held_calls import HeldCalls
from hostler.secrets.known_values import redact_error
from hostler.storage.port import Tx
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import NewEntry
from hostler.tools.platform import action_pin
from hostler_protocol.calls import CALLS, Call, CallParams
from hostler_protocol.calls.digest import digest_of
from hostler_protocol.errors import HostlerError, PluginProtocolError, UnauthorizedError
from hostler_protocol.frames import MessageId

log = logging.getLogger(__name__)


class _Lone(NamedTuple):
    """A call whose answer is recorded, and that no other one has joined in this turn of the loop."""

    call: CallInProgress
    digest: str
    handle: asyncio.Handle


class CallExecutor:
    """Carries out the calls of one attempt.

    `runner` makes all calls that have no external caller. `resumption`: the recording that the attempt
    continues, if any; `inherited`: that of the run it was forked from. `ahead` is None if the runner's SDK
    takes no answers ahead, `held` if nobody can be asked.
    `progressed` is set when a call is over, and by `held` when one begins to wait for people; `active` is
    called when a call is over.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        gated: GatedRun,
        scope: CallScope,
        journal: RunLog,
        blobs: BlobFolder,
        runner: Requester,
        resumption: Resumption | None = None,
        inherited: Inherited | None = None,
        ahead: SendAhead | None = None,
        held: HeldCalls | None = None,
        progressed: asyncio.Event | None = None,
        confirm: Callable[[], Awaitable[None]] | None = None,
        active: Callable[[], None] = lambda: None,
    ) -> None:
        self._gate = gate
        self._gated = gated
        self._scope = scope
        self._journal = journal
        self._log = CallLog(journal, blobs)
        self._runner = runner
        self._resumption = resumption
        self._inherited = inherited
        self._ahead: AnswersAhead | None = None
        if resumption is not None and ahead is not None:
            self._ahead = AnswersAhead(resumption, gated, ahead)
        self._held = held
        self._progressed = progressed or asyncio.Event()
        self._active = active
        self.tools = ToolCalls(scope, journal, self._log, held, confirm)
        self._seen: Counter[tuple[str, str]] = Counter()
        self._calls: dict[MessageId, CallInProgress] = {}
        self._lone: _Lone | None = None
        self._external_calls = 0
        self._had_effects = False

    @property
    def had_effects(self) -> bool:
        """Whether a call changed something, or may have."""
        return self._had_effects or self.tools.had_effects

    def begin(
        self, call_id: MessageId, method: str, params: CallParams, external: ExternalCaller | None = None
    ) -> None:
        """Take a call; it is answered when it is done. `external`: who makes it, if it is not the runner."""
        call = CallInProgress(
            call_id, method, params, self._runner if external is None else external, external
        )
        before, self._lone = self._lone, None
        digest = self._digest_of_recorded(call)
        if before is not None:  # of calls that came together the recording says which is answered first
            before.handle.cancel()
            self._start(before.call)
        elif digest is not None and not self._calls:
            handle = asyncio.get_running_loop().call_soon(self._answer_lone)
            self._lone = _Lone(call, digest, handle)
            return
        self._start(call)

    def _start(self, call: CallInProgress) -> None:
        self._calls[call.call_id] = call
        call.task = asyncio.create_task(self._carry(call), name=f"{call.method} {call.call_id}")
        call.task.add_done_callback(lambda _: self._ended(call))

    def _ended(self, call: CallInProgress) -> None:
        self._calls.pop(call.call_id, None)
        self._progressed.set()
        self._active()

    def give_up(self, call_id: MessageId, *, goes_on: bool) -> None:
        """The runner no longer waits for the call, and `goes_on` without it or is being stopped.

        What is already on its way into the database stays.
        """
        if self._lone is not None and self._lone.call.call_id == call_id:
            self._drop_lone()
        call = self._calls.get(call_id)
        if call is not None and call.task is not None:
            call.given_up = "goes on" if goes_on else "stops"
            call.task.cancel()

    def stop(self) -> None:
        """The attempt is over."""
        self._drop_lone()
        for call in self._calls.values():
            if call.task is not None:
                call.task.cancel()
        self.tools.stop()

    @property
    def under_way(self) -> bool:
        """Whether a call has no answer yet, or a tool is working although nobody waits for it."""
        return bool(self._calls) or self._lone is not None or self.tools.under_way

    async def quiet(self) -> None:
        """Wait until no call is under way but those that wait for people."""
        while self.tools.under_way or len(self._calls) > self._waiting:
            self._progressed.clear()
            await self.tools.quiet()
            if len(self._calls) > self._waiting:
                await self._progressed.wait()

    @property
    def _waiting(self) -> int:
        return 0 if self._held is None else self._held.waiting

    # -- one call ---------------------------------------------------------------------------------

    async def _carry(self, call: CallInProgress) -> None:
        admitted = self._admit(call)
        if admitted is None:
            return
        number = self._external_number(call)
        record = self._record(call, "" if number else digest_of(call.params), number)
        recorded = None if self._resumption is None else self._resumption.find(record.name)
        try:
            if self._resumption is not None and recorded is not None and recorded.position is not None:
                admitted.repeat()
                record.is_written = True
                if await answer_again(call, self._resumption, recorded):
                    self._had_effects = True  # not `|=`, which would forget an effect of meanwhile
            elif self._inherited is not None and (passed := self._inherited.find(record.name)) is not None:
                admitted.repeat()
                if self._resumption is not None:
                    await self._resumption.begin(call.method, False, None)
                await answer_inherited(call, record, self._inherited, passed, self._log)
            else:
                await self._go_live(record, recorded)
                if (row := await self._charged(call, admitted, record, recorded)) is not None:
                    await self._make(call, row, record, recorded)
        except HostlerError as error:
            await self._refuse(call, record, error)
        except asyncio.CancelledError:
            if call.given_up:
                begun = recorded is not None or record.name in self.tools.begun
                self._give_up(record, goes_on=call.given_up == "goes on", begun=begun)
            raise
        except Exception:
            # the top of a call's worker: the run gets a refusal, the log the traceback
            log.exception("run %s: %s failed", self._scope.run_id, call.method)
            await self._refuse(call, record, HostlerError(f"the host failed to carry out {call.method}"))
        finally:
            self._log.over(record)

    def _admit(self, call: CallInProgress) -> AdmittedCall | None:
        """Admit a call; None: it was refused."""
        try:
            return self._gate.admit(self._gated, call.method, call.params)
        except HostlerError as error:
            check = refusing_check(self._gated, call.method, call.params)
            self._turn_away(call, CallName(call.method[:100], "", self._external_number(call)), error, check)
            return None

    async def _go_live(self, record: CallRecord, recorded: RecordedCall | None) -> None:
        """Go beyond the recording, for a call that it does not answer."""
        if not self._scope.effects:
            check_effects(record.name.method, record.effect, record.params)
        if self._resumption is not None:
            effect = is_effect(record.name.method, record.effect)
            await self._resumption.begin(record.name.method, effect, recorded)

    async def _charged(
        self, call: CallInProgress, admitted: AdmittedCall, record: CallRecord, recorded: RecordedCall | None
    ) -> Call | None:
        """Charge a call; None: it was refused."""
        may_ask = call.external is None or call.external.may_wait
        begun = recorded is not None and recorded.intent is not None
        try:
            return await admitted.charge(record, may_ask=may_ask, begun=begun)
        except HostlerError as error:
            self._turn_away(call, record.name, error, admitted.refused_by)
            return None

    def _turn_away(self, call: CallInProgress, name: CallName, error: HostlerError, check: CallCheck) -> None:
        """Journal and send a refusal of the gate."""
        redact_error(error)
        self._log.write_refusal(refusal_entry(name, call.params, error, check))
        call.requester.refuse(call.call_id, error)

    async def _refuse(self, call: CallInProgress, record: CallRecord, error: HostlerError) -> None:
        """Journal and send the error that a call ended with."""
        if isinstance(error, JournalledError):
            error = error.error
        else:
            note_error(record, error)
            self._log.write(record, error=redact_error(error))
        await self._log.turn(record)
        call.requester.refuse(call.call_id, error)

    def _external_number(self, call: CallInProgress) -> int:
        """Return the number of an external call, or 0 for a call of the runner."""
        if call.external is None:
            return 0
        self._external_calls += 1
        return external_call_number(self._scope.attempt, self._external_calls)

    def _record(self, call: CallInProgress, digest: str, number: int = 0) -> CallRecord:
        self._seen[call.method, digest] += 1
        record = CallRecord(
            CallName(call.method, digest, number or self._seen[call.method, digest]), call.params
        )
        if call.method == "tool.call":
            pin = self._scope.grant.tool_pins.get(getattr(call.params, "tool_name", ""))
            record.effect = None if pin is None else pin.effect
        elif call.method == "action.request":
            action = PLATFORM_ACTIONS.get(getattr(call.params, "action", ""))
            record.effect = None if action is None else action_pin(action.name).effect
        return record

    def _give_up(self, record: CallRecord, *, goes_on: bool, begun: bool) -> None:
        """The runner no longer waits: what it heard so far is all it hears when it makes the call again.

        Where it `goes_on`, a call that was not `begun` did nothing but, perhaps, ask people, who need not
        answer any more. That one was not may turn out later.
        """
        if record.is_written:
            return
        held, of_ledger = self._held, record.name.method in LEDGER_CALLS
        if goes_on and not begun and held is not None and (of_ledger or record.asking is not None):
            self._withdraw(record, held)
        elif not CALLS[record.name.method].effect:
            self._log.write(record, given_up=True)
        elif goes_on and held is not None:
            self.tools.withdraw_if_not_called(record.name, lambda: self._withdraw(record, held))

    def _withdraw(self, record: CallRecord, held: HeldCalls) -> None:
        """Ask nobody about a call, and journal that it was given up."""
        call_id = record.asking or record.name.call_id
        held.give_up(call_id)
        self._log.write_withdrawn(record, lambda tx: held.withdraw(tx, call_id), held.changed)

    # -- from the recording -----------------------------------------------------------------------

    def _digest_of_recorded(self, call: CallInProgress) -> str | None:
        """The digest of a call that may be answered from the recording at once; None for any other."""
        if self._resumption is None or self._resumption.is_over or call.external is not None:
            return None
        digest = digest_of(call.params)
        recorded = self._resumption.peek(self._next_name(call.method, digest))
        if self._ahead is not None:
            self._ahead.requested(None if recorded is None else recorded.name)
        is_lone = recorded is not None and recorded.data is not None and call.method not in STREAM_FUNCTIONS
        return digest if is_lone else None

    def _next_name(self, method: str, digest: str) -> CallName:
        return CallName(method, digest, self._seen[method, digest] + 1)

    def _answer_lone(self) -> None:
        """Answer one recorded call without a task: a resume may consist of a thousand of them."""
        lone, resumption = self._lone, self._resumption
        if lone is None or resumption is None:
            return
        self._lone = None
        call, digest, _ = lone
        recorded = resumption.peek(self._next_name(call.method, digest))
        if recorded is None or recorded.data is None or not resumption.may_answer(recorded):
            self._start(call)
            return
        try:
            answer = answer_of(recorded.data)
        except msgspec.DecodeError:  # its task refuses it, with the traceback
            self._start(call)
            return
        admitted = self._admit(call)
        if admitted is not None:
            admitted.repeat()
            self._repeated(call.method, digest, resumption)
            self._send_ahead()  # before the answer, after which the runner goes on
            self._had_effects |= repeat(call, recorded, answer)
        self._active()

    def _repeated(self, method: str, digest: str, resumption: Resumption) -> None:
        self._seen[method, digest] += 1
        recorded = resumption.find(CallName(method, digest, self._seen[method, digest]))
        if recorded is not None:
            resumption.answered(recorded)

    def _send_ahead(self) -> None:
        if self._ahead is not None and not self.under_way and self._ahead.send_more():
            self._had_effects = True

    def take_ahead(self, method: str, params: CallParams) -> str | None:
        """Take a call whose answer was sent ahead. Return a sentence if the runner made another call with it.

        Raises PluginProtocolError if no answers are sent ahead in this attempt.
        """
        ahead, resumption = self._ahead, self._resumption
        if ahead is None or resumption is None:
            raise PluginProtocolError(f"{method} came without an id, but no answer was sent ahead of it")
        digest = digest_of(params)
        recorded = ahead.take(self._next_name(method, digest))
        if recorded is None:
            return f"{method} was made with an answer that was sent ahead of another call"
        try:
            admitted = self._gate.admit(self._gated, method, params)
        except HostlerError as error:
            check = refusing_check(self._gated, method, params)
            self._log.write_refusal(refusal_entry(recorded.name, params, error, check))
            return f"{method} was made with an answer that was sent ahead, and is refused: {error.message}"
        admitted.repeat()
        self._repeated(method, digest, resumption)
        self._send_ahead()
        self._active()
        return None

    def _drop_lone(self) -> None:
        if self._lone is not None:
            self._lone.handle.cancel()
            self._lone = None

    # -- for real ---------------------------------------------------------------------------------

    async def _make(
        self, call: CallInProgress, row: Call, record: CallRecord, recorded: RecordedCall | None
    ) -> None:
        """Carry out a call that no recording answers."""
        intent = None if recorded is None or recorded.intent is None else intent_of(recorded.intent)
        async with self._scope.within_deadline():
            reply = await self._work(call, row, record, intent)
        if not record.is_over:
            await self._log.turn(record)
            call.requester.reply(call.call_id, reply)

    async def _work(self, call: CallInProgress, row: Call, record: CallRecord, intent: Intent | None) -> Any:
        """Do what a call asks for, and queue the outcome for the journal; return the reply."""
        if row.method == "interaction.request":
            return await ask(self._scope, record, self._held, self._log)
        # a run sees what it wrote itself
        await (self._journal.settled() if row.method in SEES_RUNS else self._journal.seen())
        if row.method in TOOL_METHODS:
            return await self._call_tool(call, record, intent)
        if row.chunk is not None:
            return await self._stream(call, row.chunk, record)
        return await self._compute(call, record, intent)

    async def _compute(self, call: CallInProgress, record: CallRecord, intent: Intent | None) -> Any:
        reply: Any
        if intent is not None and intent.child_run_id is not None:
            child = intent.child_run_id
            reply = await self._scope.services.runs.rejoin(self._scope, child, record.params)
            self._log.write(record, reply=reply)
        else:
            reply = await CALL_FUNCTIONS[call.method](*within_reservation(self._scope, record))
            if isinstance(reply, Effect):
                reply = await self._take_effect(record, reply)
            else:
                if isinstance(reply, Charged):
                    reply, record.cost = reply
                note_reply(record, reply)
                self._log.write(record, reply=reply)
        return reply

    async def _take_effect(self, record: CallRecord, effect: Effect) -> Any:
        def work(tx: Tx) -> tuple[NewEntry, Any]:
            reply = effect.work(tx)
            if isinstance(reply, HostlerError):
                return self._log.effect_entry(record, None, reply), reply
            if effect.child is not None and (child := effect.child(reply)) is not None:
                return self._log.child_intent(record, child), reply
            return self._log.effect_entry(record, reply, None), reply

        if effect.child is None:
            self._log.queued(record)
        reply = await self._journal.write(work, effect.settled)
        if isinstance(reply, HostlerError):
            if effect.refused is not None:
                await effect.refused(reply)
            raise JournalledError(reply)
        self._had_effects = True
        answer = reply if effect.then is None else await effect.then(reply)
        if effect.child is not None:
            self._log.write(record, reply=answer)
        return answer

    async def _stream(self, call: CallInProgress, chunk_type: type[Any], record: CallRecord) -> Any:
        reply: Any = None
        pieces = STREAM_FUNCTIONS[call.method](*within_reservation(self._scope, record))
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, chunk_type):
                    record.chunks.append(chunk_record(piece))
                    if not await call.requester.stream(call.call_id, piece):
                        self._log.write(record, given_up=True)
                        self._log.over(record)
                        return None
                else:
                    reply, record.cost = piece
        note_reply(record, reply)
        self._log.write(record, reply=reply)
        return reply

    async def _call_tool(self, call: CallInProgress, record: CallRecord, intent: Intent | None) -> Any:
        external, tool_name = call.external, tool_of(record)
        if external is not None and not external.may_wait and self.tools.asks_people(tool_name):
            record.check = "approval"
            why = "needs a person or a client, and this run may be parked meanwhile: its runner can make"
            raise UnauthorizedError(f"tool {tool_name!r} {why} this call, a service can not")
        reply = await self.tools.call(record, intent)
        self._had_effects |= record.effect != "pure"
        return reply
