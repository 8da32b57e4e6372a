"""The Host API calls of one attempt: gate, recording, work, journal, answer.

A call that the recording of an earlier attempt holds is answered from it. A call that changes something in
the host is carried out in the transaction that journals it; tools have their intents (tool_calls.py). Reads
are journalled without waiting for the commit. Calls and results share the run's one order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from hostler.calls.functions import CALL_FUNCTIONS, LEDGER_CALLS, SEES_RUNS, STREAM_FUNCTIONS
from hostler.calls.gate import AdmittedCall, Gate, GatedRun
from hostler.calls.run_tokens import Guest
from hostler.calls.scope import CallScope, Effect
from hostler.calls.tool_calls import ToolCalls
from hostler.domain.pauses import NO_QUESTIONS
from hostler.domain.recording import CallName, RecordedCall, guest_call_number, is_effect
from hostler.journal.call_log import CallLog, CallRecord
from hostler.journal.call_records import (
    CallEntry,
    Intent,
    JournalledError,
    RecordedAnswer,
    answer_of,
    chunk_of,
    chunk_record,
    digest_of,
    intent_of,
)
from hostler.journal.fork import Inherited, check_effects
from hostler.journal.resume import Resumption
from hostler.journal.run_log import RunLog
from hostler.pauses.port import People, Question, refusal_of
from hostler.plugins.connection import PluginConnection
from hostler.storage.port import Tx
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import Entry
from hostler_protocol.calls import CALLS, Call, CallParams, InteractionParams
from hostler_protocol.errors import (
    DeadlineExceededError,
    DeniedError,
    HostlerError,
    UnauthorizedError,
    from_fault,
    to_fault,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.pausing import Decision

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


class _Alone(NamedTuple):
    """A call whose answer is recorded, and that no other one has joined in this turn of the loop."""

    call_id: MessageId
    method: str
    params: CallParams
    digest: str
    handle: asyncio.Handle


class CallExecutor:
    """Carries out the calls of one attempt.

    `going_on`: the recording that it goes on from, if any. `active` is told whenever a call is over.
    """

    def __init__(
        self,
        *,
        gate: Gate,
        blobs: BlobFolder,
        connection: PluginConnection,
        gated: GatedRun,
        scope: CallScope,
        journal: RunLog,
        going_on: Resumption | None = None,
        inherited: Inherited | None = None,
        people: People | None = None,
        confirm: Callable[[], Any] | None = None,
        active: Callable[[], None] = lambda: None,
    ) -> None:
        self._gate = gate
        self._connection = connection
        self._gated = gated
        self._scope = scope
        self._journal = journal
        self._written = CallLog(journal, blobs)
        self._going_on = going_on
        self._inherited = inherited
        self._people = people
        self._active = active
        self.tools = ToolCalls(scope, journal, people, confirm)
        self._seen: Counter[tuple[str, str]] = Counter()
        self._tasks: dict[MessageId, asyncio.Task[None]] = {}
        self._alone: _Alone | None = None
        self._given_up: dict[MessageId, bool] = {}
        """Calls that the runner gave up, and whether it goes on without them."""
        self._guests: dict[MessageId, Guest] = {}
        self._by_guests = 0
        self._done = asyncio.Event()
        self._had_effects = False

    @property
    def had_effects(self) -> bool:
        """Whether a call changed something, or may have."""
        return self._had_effects or self.tools.had_effects

    def begin(self, call_id: MessageId, method: str, params: CallParams, guest: Guest | None = None) -> None:
        """Take a call; it is answered when it is done. `guest`: who makes it, where it is not the runner."""
        if guest is not None:
            self._guests[call_id] = guest
        before, self._alone = self._alone, None
        if before is not None:  # of calls that came together the recording says which is answered first
            before.handle.cancel()
            self._start(before.call_id, before.method, before.params)
        elif guest is None and not self._tasks and (digest := self._digest_of_recorded(method, params)):
            handle = asyncio.get_running_loop().call_soon(self._answer_alone)
            self._alone = _Alone(call_id, method, params, digest, handle)
            return
        self._start(call_id, method, params)

    def _start(self, call_id: MessageId, method: str, params: CallParams) -> None:
        task = asyncio.create_task(self._carry(call_id, method, params), name=f"{method} {call_id}")
        self._tasks[call_id] = task
        task.add_done_callback(lambda _: self._left(call_id))

    def _left(self, call_id: MessageId) -> None:
        self._tasks.pop(call_id, None)
        self._given_up.pop(call_id, None)
        self._guests.pop(call_id, None)
        self._done.set()
        self._active()

    def give_up(self, call_id: MessageId, *, goes_on: bool) -> None:
        """The runner no longer waits for it, and `goes_on` without it or is being stopped.

        What is already on its way into the database stays.
        """
        if self._alone is not None and self._alone.call_id == call_id:
            self._drop_alone()
        task = self._tasks.get(call_id)
        if task is not None:
            self._given_up[call_id] = goes_on
            task.cancel()

    def stop(self) -> None:
        """The attempt is over."""
        self._drop_alone()
        for task in list(self._tasks.values()):
            task.cancel()
        self.tools.stop()

    @property
    def under_way(self) -> bool:
        """Whether a call has no answer yet, or a tool is being asked although nobody waits for it."""
        return bool(self._tasks) or self._alone is not None or self.tools.under_way

    def look_again(self) -> None:
        """A call has begun to wait for people: who waits for quiet looks once more."""
        self._done.set()

    async def quiet(self, held: Callable[[], int]) -> None:
        """Wait until no call is under way but those that are held; `held` says how many that are."""
        while self.tools.under_way or len(self._tasks) > held():
            self._done.clear()
            await self.tools.quiet()
            if len(self._tasks) > held():
                await self._done.wait()

    # -- one call ---------------------------------------------------------------------------------

    async def _carry(self, call_id: MessageId, method: str, params: CallParams) -> None:
        admitted = self._admit(call_id, method, params)
        if admitted is None:
            return
        guest = self._guest_number(call_id)
        record = self._record(method, params, "" if guest else digest_of(params), guest)
        going_on = self._going_on
        recorded = None if going_on is None else going_on.find(record.name)
        try:
            if going_on is not None and recorded is not None and recorded.position is not None:
                record.is_written = True
                await self._answer_again(call_id, admitted.repeat(), going_on, recorded)
            elif self._inherited is not None and (passed := self._inherited.find(record.name)) is not None:
                await self._pass_on(call_id, admitted.repeat(), record, self._inherited, passed)
            elif (call := await self._charged(call_id, admitted, record)) is not None:
                await self._make(call_id, call, record, recorded)
        except HostlerError as error:
            self._refuse(call_id, record, error)
        except asyncio.CancelledError:
            if call_id in self._given_up:
                begun = recorded is not None or record.name in self.tools.begun
                self._give_up(record, asked=self._given_up[call_id] and not begun)
            raise
        except Exception:
            # The top of a call's worker: the run is told, the log has the traceback.
            log.exception("run %s: %s failed", self._scope.run_id, method)
            self._refuse(call_id, record, HostlerError(f"the host failed to carry out {method}"))

    def _admit(self, call_id: MessageId, method: str, params: CallParams) -> AdmittedCall | None:
        """Admit a call; None: it was refused."""
        try:
            return self._gate.admit(self._gated, method, params)
        except HostlerError as error:
            nth = self._guest_number(call_id)
            self._written.refused(CallEntry(method[:100], nth=nth, error=to_fault(error)))
            self._caller(call_id).refuse(call_id, error)
            return None

    def _caller(self, call_id: MessageId) -> PluginConnection | Guest:
        """Who is answered."""
        return self._guests.get(call_id, self._connection)

    def _guest_number(self, call_id: MessageId) -> int:
        """0: the call is the runner's own."""
        if call_id not in self._guests:
            return 0
        self._by_guests += 1
        return guest_call_number(self._scope.attempt, self._by_guests)

    def _record(self, method: str, params: CallParams, digest: str, guest: int = 0) -> CallRecord:
        self._seen[method, digest] += 1
        name = CallName(method, digest, guest or self._seen[method, digest])
        record = CallRecord(name, params)
        if method == "tool.call":
            pin = self._scope.grant.tool_pins.get(getattr(params, "tool_name", ""))
            record.effect = None if pin is None else pin.effect
        return record

    def _give_up(self, record: CallRecord, *, asked: bool) -> None:
        """The runner no longer waits: what it heard so far is all it hears when it makes the call again.

        `asked`: if it did anything it would be to ask people, who need not answer any more.
        """
        if record.is_written:
            return
        if not CALLS[record.name.method].effect:
            self._written.write(record, given_up=True)
        elif asked and self._people is not None and record.name.method in LEDGER_CALLS:
            call_id, people = record.name.call_id, self._people
            people.no_longer(call_id)
            self._written.withdrawn(record, lambda tx: people.withdraw(tx, call_id), people.changed)

    async def _charged(self, call_id: MessageId, admitted: AdmittedCall, record: CallRecord) -> Call | None:
        """Charge a call; None: it was refused."""
        try:
            return await admitted.charge()
        except HostlerError as error:
            name = record.name
            self._written.refused(CallEntry(name.method, name.digest, name.nth, error=to_fault(error)))
            self._caller(call_id).refuse(call_id, error)
            return None

    async def _make(
        self, call_id: MessageId, call: Call, record: CallRecord, recorded: RecordedCall | None
    ) -> None:
        """Do what the call asks for."""
        check_effects(self._scope.effects, record.name.method, record.effect, record.params)
        if self._going_on is not None:
            effect = is_effect(record.name.method, record.effect)
            await self._going_on.begin(record.name.method, effect, recorded)
        async with self._deadline():
            if call.method == "interaction.request":
                await self._interact(call_id, record)
                return
            # a run sees what it wrote itself
            await (self._journal.settled() if call.method in SEES_RUNS else self._journal.seen())
            intent = None if recorded is None or recorded.intent is None else intent_of(recorded.intent)
            if call.method == "tool.call":
                await self._call_tool(call_id, record, intent)
            elif call.chunk is not None:
                await self._stream(call_id, call, record)
            else:
                await self._answer(call_id, call, record, intent)

    @contextlib.asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        deadline = self._scope.deadline_at
        delay = None if deadline is None else max(0.0, deadline - self._scope.services.clock())
        try:
            async with asyncio.timeout(delay) as scope:
                yield
        except TimeoutError:
            if not scope.expired():
                raise
            raise DeadlineExceededError("the run's deadline is over") from None

    # -- from the recording -----------------------------------------------------------------------

    def _digest_of_recorded(self, method: str, params: CallParams) -> str | None:
        """The digest of a call that may be answered from the recording at once; None for any other."""
        if self._going_on is None or self._going_on.is_over or method in STREAM_FUNCTIONS:
            return None
        digest = digest_of(params)
        recorded = self._going_on.look(CallName(method, digest, self._seen[method, digest] + 1))
        return None if recorded is None or recorded.data is None else digest

    def _answer_alone(self) -> None:
        """Answer one recorded call without a task of its own: a thousand of them make up a resume."""
        alone, going_on = self._alone, self._going_on
        if alone is None or going_on is None:
            return
        self._alone = None
        call_id, method, params, digest, _ = alone
        recorded = going_on.look(CallName(method, digest, self._seen[method, digest] + 1))
        if recorded is None or recorded.data is None or not going_on.may_answer(recorded):
            self._start(call_id, method, params)
            return
        admitted = self._admit(call_id, method, params)
        if admitted is not None:
            admitted.repeat()
            going_on.find(self._record(method, params, digest).name)
            self._repeat(call_id, recorded, answer_of(recorded.data))
            going_on.answered(recorded)
        self._active()

    def _drop_alone(self) -> None:
        if self._alone is not None:
            self._alone.handle.cancel()
            self._alone = None

    async def _answer_again(
        self, call_id: MessageId, call: Call, going_on: Resumption, recorded: RecordedCall
    ) -> None:
        """Answer from the recording, in its turn. It stands in the journal already."""
        await asyncio.sleep(0)  # calls that came together are all seen before one of them is answered
        try:
            answer = await going_on.read(recorded)
            for chunk in answer.chunks if call.chunk is not None else ():
                if not await self._caller(call_id).stream(call_id, chunk_of(chunk)):
                    return
            # what the runner made of the chunks was recorded before the outcome
            await going_on.turn(recorded)
            self._repeat(call_id, recorded, answer)
        except HostlerError as error:
            self._caller(call_id).refuse(call_id, error)
        finally:
            going_on.answered(recorded)

    def _repeat(self, call_id: MessageId, recorded: RecordedCall, answer: RecordedAnswer) -> None:
        if answer.given_up:
            return  # the runner did not wait for more
        if answer.error is not None:
            self._connection.refuse(call_id, from_fault(answer.error))
        else:
            self._had_effects |= recorded.effect
            self._connection.reply(call_id, answer.reply)

    async def _pass_on(
        self, call_id: MessageId, call: Call, record: CallRecord, inherited: Inherited, passed: RecordedCall
    ) -> None:
        """Answer as the run was answered that this one was forked from; it is this one's own call now."""
        if self._going_on is not None:
            await self._going_on.begin(record.name.method, False, None)
        answer = await inherited.answer(passed)
        record.chunks = answer.chunks
        for chunk in answer.chunks if call.chunk is not None else ():
            if not await self._caller(call_id).stream(call_id, chunk_of(chunk)):
                return
        if answer.given_up:
            self._written.write(record, given_up=True)
            return
        if answer.error is not None:
            raise from_fault(answer.error)
        self._written.write(record, reply=answer.reply)
        self._caller(call_id).reply(call_id, answer.reply)

    # -- for real ---------------------------------------------------------------------------------

    async def _answer(
        self, call_id: MessageId, call: Call, record: CallRecord, intent: Intent | None
    ) -> None:
        reply: Any
        if intent is not None and intent.child_run_id is not None:
            child = intent.child_run_id
            reply = await self._scope.services.runs.rejoin(self._scope, child, record.params)
            self._written.write(record, reply=reply)
        else:
            reply = await CALL_FUNCTIONS[call.method](self._scope, record.params)
            if isinstance(reply, Effect):
                reply = await self._take_effect(record, reply)
            else:
                self._written.write(record, reply=reply)
        self._caller(call_id).reply(call_id, reply)

    async def _take_effect(self, record: CallRecord, effect: Effect) -> Any:
        def work(tx: Tx) -> tuple[Entry, Any]:
            reply = effect.work(tx)
            if isinstance(reply, HostlerError):
                return self._written.effect(record, None, reply), reply
            if effect.child is not None and (child := effect.child(reply)) is not None:
                return self._written.child_intent(record, child), reply
            return self._written.effect(record, reply, None), reply

        reply = await self._journal.write(work, effect.settled)
        if isinstance(reply, HostlerError):
            raise JournalledError(reply)
        self._had_effects = True
        answer = reply if effect.then is None else await effect.then(reply)
        if effect.child is not None:
            self._written.write(record, reply=answer)
        return answer

    async def _stream(self, call_id: MessageId, call: Call, record: CallRecord) -> None:
        reply: Any = None
        chunk_type: Any = call.chunk
        pieces = STREAM_FUNCTIONS[call.method](self._scope, record.params)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, chunk_type):
                    record.chunks.append(chunk_record(piece))
                    if not await self._caller(call_id).stream(call_id, piece):
                        self._written.write(record, given_up=True)
                        return
                else:
                    reply = piece
        self._written.write(record, reply=reply)
        self._caller(call_id).reply(call_id, reply)

    async def _call_tool(self, call_id: MessageId, record: CallRecord, intent: Intent | None) -> None:
        async def write(
            reply: Any,
            error: HostlerError | None,
            *,
            durable: bool,
            settle: Callable[[Tx], None] | None = None,
        ) -> None:
            if durable:
                await self._written.write_durable(record, reply, error, settle)
            else:
                self._written.write(record, reply=reply, error=error)

        guest = self._guests.get(call_id)
        if guest is not None and not guest.may_wait and self.tools.asks_people(record.params.tool_name):
            why = "needs a person or a client, and this run may be parked meanwhile: its runner can make"
            raise UnauthorizedError(f"tool {record.params.tool_name!r} {why} this call, a service can not")
        reply = await self.tools.call(record.name, record.params, intent, write)
        self._had_effects |= record.effect != "pure"
        self._caller(call_id).reply(call_id, reply)

    async def _interact(self, call_id: MessageId, record: CallRecord) -> None:
        """Put a question to a person; the decision is the answer, whatever it is.

        The runner need not wait until that stands in the journal: the decision is durable with its pause, and
        what follows from it stands behind it in the journal.
        """
        form: InteractionParams = record.params
        if not self._scope.grant.questions:
            raise DeniedError(f"the question {form.title!r:.80} was denied: {NO_QUESTIONS}")
        if self._people is None:
            raise UnauthorizedError("this host cannot put questions to people")
        verdict = await self._people.ask(Question("question", record.name, {}, form=form))
        refused = refusal_of(verdict, f"the question {form.title!r:.80}")
        settle = None if verdict.settle is None else partial(_settle_with, verdict.settle, refused)
        if refused is not None:
            self._written.write(record, error=refused, settle=settle)
            raise JournalledError(refused)
        decision = Decision(
            call_id=record.name.call_id,
            decision="answered",
            values=verdict.values,
            result=verdict.result,
            comment=verdict.comment,
            decided_by=verdict.decided_by,
        )
        self._written.write(record, reply=decision, settle=settle)
        self._caller(call_id).reply(call_id, decision)

    # -- writing down -----------------------------------------------------------------------------

    def _refuse(self, call_id: MessageId, record: CallRecord, error: HostlerError) -> None:
        if isinstance(error, JournalledError):
            error = error.error
        else:
            self._written.write(record, error=error)
        self._caller(call_id).refuse(call_id, error)


def _settle_with(
    settle: Callable[[Tx, HostlerError | None], None], error: HostlerError | None, tx: Tx
) -> None:
    settle(tx, error)
