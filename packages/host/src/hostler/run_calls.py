"""The Host API calls of one attempt: gate, recording, work, journal, answer.

A call that the recording of an earlier attempt holds is answered from it. A call that changes something in
the host is carried out in the transaction that journals it; tools have their intents (tool_calls.py). Reads
are journalled without waiting for the commit. Calls and results share the run's one order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from hostler.asking import People, Question, refusal_of
from hostler.call_records import (
    CallEntry,
    Intent,
    JournalledError,
    chunk_of,
    chunk_record,
    digest_of,
    intent_of,
    shown,
)
from hostler.calls import CALL_FUNCTIONS, STREAM_FUNCTIONS
from hostler.calls.scope import CallScope, Effect
from hostler.domain.recording import CallName, RecordedCall, is_effect
from hostler.gate import Gate, GatedRun
from hostler.inheriting import Inherited, check_effects
from hostler.plugins.connection import PluginConnection
from hostler.ports import Tx
from hostler.resuming import GoingOn
from hostler.runlog import Item, RunLog
from hostler.stores.blobs import Blob, BlobFolder, reference
from hostler.stores.journal import MAX_INLINE_BYTES, Entry
from hostler.tool_calls import ToolCalls
from hostler_protocol.calls import Call, CallParams, InteractionParams
from hostler_protocol.errors import (
    DeadlineExceededError,
    HostlerError,
    UnauthorizedError,
    from_fault,
    to_fault,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.pausing import Decision

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


@dataclass(slots=True)
class _Record:
    """One call on its way into the journal."""

    name: CallName
    params: Any
    effect: str | None = None
    """The effect class of the tool that is called."""
    began: float = field(default_factory=time.monotonic)
    chunks: list[Any] = field(default_factory=list)

    def data(self, reply: Any = None, error: HostlerError | None = None) -> bytes:
        entry = CallEntry(
            method=self.name.method,
            digest=self.name.digest,
            nth=self.name.nth,
            params=self.params,
            ms=round((time.monotonic() - self.began) * 1000, 3),
            chunks=self.chunks,
            reply=msgspec.UNSET if error is not None else reply,
            error=None if error is None else to_fault(error),
            effect=self.effect,
        )
        return _encoder.encode(entry)

    def shortened(self) -> _Record:
        """The same with size and digest in the place of large parameters."""
        return replace(self, params=shown(self.params))

    def outline(self, size: int, reply: Any, error: HostlerError | None) -> bytes:
        """What stands in the journal where the whole is too large for it."""
        entry = CallEntry(
            method=self.name.method,
            digest=self.name.digest,
            nth=self.name.nth,
            error=None if error is None else to_fault(error),
            effect=self.effect,
            size_bytes=size,
            usage=getattr(reply, "usage", None),
        )
        return _encoder.encode(entry)


class RunCalls:
    """Carries out the calls of one attempt. `going_on`: the recording that it goes on from, if any."""

    def __init__(
        self,
        *,
        gate: Gate,
        blobs: BlobFolder,
        connection: PluginConnection,
        gated: GatedRun,
        scope: CallScope,
        journal: RunLog,
        going_on: GoingOn | None = None,
        inherited: Inherited | None = None,
        people: People | None = None,
        confirm: Callable[[], Any] | None = None,
    ) -> None:
        self._gate = gate
        self._blobs = blobs
        self._connection = connection
        self._gated = gated
        self._scope = scope
        self._journal = journal
        self._going_on = going_on
        self._inherited = inherited
        self._people = people
        self.tools = ToolCalls(scope, journal, people, confirm)
        self._seen: Counter[tuple[str, str]] = Counter()
        self._tasks: dict[MessageId, asyncio.Task[None]] = {}
        self._done = asyncio.Event()
        self.had_effects = False
        """Whether a call changed something."""

    def begin(self, call_id: MessageId, method: str, params: CallParams) -> None:
        """Take a call; it is answered when it is done."""
        task = asyncio.create_task(self._carry(call_id, method, params), name=f"{method} {call_id}")
        self._tasks[call_id] = task
        task.add_done_callback(lambda _: self._left(call_id))

    def _left(self, call_id: MessageId) -> None:
        self._tasks.pop(call_id, None)
        self._done.set()

    def give_up(self, call_id: MessageId) -> None:
        """The runner no longer waits for it. What is already on its way into the database stays."""
        task = self._tasks.get(call_id)
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """The attempt is over."""
        for task in list(self._tasks.values()):
            task.cancel()
        self.tools.stop()

    async def quiet(self, held: Callable[[], int]) -> None:
        """Wait until no call is under way but those that are held; `held` says how many that are."""
        while self.tools.under_way or len(self._tasks) > held():
            self._done.clear()
            await self.tools.quiet()
            if len(self._tasks) > held():
                await self._done.wait()

    # -- one call ---------------------------------------------------------------------------------

    async def _carry(self, call_id: MessageId, method: str, params: CallParams) -> None:
        try:
            call = self._gate.admit(self._gated, self._connection, self._scope.attempt, method, params)
        except HostlerError as error:
            self._note_refusal(CallEntry(method[:100], error=to_fault(error)))
            self._connection.refuse(call_id, error)
            return
        record = self._record(method, params)
        going_on = self._going_on
        recorded = None if going_on is None else going_on.find(record.name)
        try:
            if going_on is not None and recorded is not None and recorded.position is not None:
                self._gate.repeat(self._gated, call)
                await self._answer_again(call_id, call, going_on, recorded)
            elif self._inherited is not None and (passed := self._inherited.find(record.name)) is not None:
                self._gate.repeat(self._gated, call)
                await self._pass_on(call_id, call, record, self._inherited, passed)
            elif self._charged(call_id, call, record):
                await self._make(call_id, call, record, recorded)
        except HostlerError as error:
            self._refuse(call_id, record, error)
        except Exception:
            # The top of a call's worker: the run is told, the log has the traceback.
            log.exception("run %s: %s failed", self._scope.run_id, method)
            self._refuse(call_id, record, HostlerError(f"the host failed to carry out {method}"))

    def _record(self, method: str, params: CallParams) -> _Record:
        known = digest_of(params)
        self._seen[method, known] += 1
        record = _Record(CallName(method, known, self._seen[method, known]), params)
        if method == "tool.call":
            pin = self._scope.grant.tool_pins.get(getattr(params, "tool_name", ""))
            record.effect = None if pin is None else pin.effect
        return record

    def _charged(self, call_id: MessageId, call: Call, record: _Record) -> bool:
        try:
            self._gate.charge(self._gated, call)
        except HostlerError as error:
            name = record.name
            self._note_refusal(CallEntry(name.method, name.digest, name.nth, error=to_fault(error)))
            self._connection.refuse(call_id, error)
            return False
        return True

    def _note_refusal(self, refusal: CallEntry) -> None:
        data = _encoder.encode(refusal)
        self._journal.add(Item(entry=Entry("refusal", refusal.method, data), synced=False, size=len(data)))

    async def _make(
        self, call_id: MessageId, call: Call, record: _Record, recorded: RecordedCall | None
    ) -> None:
        """Do what the call asks for."""
        check_effects(self._scope.effects, record.name.method, record.effect, record.params)
        if self._going_on is not None:
            effect = is_effect(record.name.method, record.effect)
            self._going_on.begin(record.name.method, effect, recorded)
        async with self._deadline():
            await self._journal.settled()  # a run sees what it wrote itself
            intent = None if recorded is None or recorded.intent is None else intent_of(recorded.intent)
            if call.method == "tool.call":
                await self._call_tool(call_id, record, intent)
            elif call.method == "interaction.request":
                await self._interact(call_id, record)
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

    async def _answer_again(
        self, call_id: MessageId, call: Call, going_on: GoingOn, recorded: RecordedCall
    ) -> None:
        """Answer from the recording, in its turn. It stands in the journal already."""
        try:
            answer = await going_on.read(recorded)
            for chunk in answer.chunks if call.chunk is not None else ():
                if not await self._connection.stream(call_id, chunk_of(chunk)):
                    return
            await going_on.turn(
                recorded
            )  # what the runner made of the chunks was recorded before the outcome
            if answer.error is not None:
                self._connection.refuse(call_id, from_fault(answer.error))
            else:
                self.had_effects |= recorded.effect
                self._connection.reply(call_id, answer.reply)
        except HostlerError as error:
            self._connection.refuse(call_id, error)
        finally:
            going_on.answered(recorded)

    async def _pass_on(
        self, call_id: MessageId, call: Call, record: _Record, inherited: Inherited, passed: RecordedCall
    ) -> None:
        """Answer as the run was answered that this one was forked from; it is this one's own call now."""
        if self._going_on is not None:
            self._going_on.begin(record.name.method, False, None)
        answer = await inherited.answer(passed)
        record.chunks = answer.chunks
        for chunk in answer.chunks if call.chunk is not None else ():
            if not await self._connection.stream(call_id, chunk_of(chunk)):
                return
        if answer.error is not None:
            raise from_fault(answer.error)
        self._write(record, reply=answer.reply)
        self._connection.reply(call_id, answer.reply)

    # -- for real ---------------------------------------------------------------------------------

    async def _answer(self, call_id: MessageId, call: Call, record: _Record, intent: Intent | None) -> None:
        reply: Any
        if intent is not None and intent.child_run_id is not None:
            child = intent.child_run_id
            reply = await self._scope.services.runs.rejoin(self._scope, child, record.params)
            self._write(record, reply=reply)
        else:
            reply = await CALL_FUNCTIONS[call.method](self._scope, record.params)
            if isinstance(reply, Effect):
                reply = await self._take_effect(record, reply)
            else:
                self._write(record, reply=reply)
        self._connection.reply(call_id, reply)

    async def _take_effect(self, record: _Record, effect: Effect) -> Any:
        def work(tx: Tx) -> tuple[Entry, Any]:
            reply = effect.work(tx)
            if isinstance(reply, HostlerError):
                return self._entry(record, None, reply), reply
            if effect.child is not None and (child := effect.child(reply)) is not None:
                return self._child_intent(record, child), reply
            return self._entry(record, reply, None), reply

        reply = await self._journal.write(work, effect.settled)
        if isinstance(reply, HostlerError):
            raise JournalledError(reply)
        self.had_effects = True
        answer = reply if effect.then is None else await effect.then(reply)
        if effect.child is not None:
            self._write(record, reply=answer)
        return answer

    def _child_intent(self, record: _Record, child_run_id: str) -> Entry:
        name = record.name
        intent = Intent(
            name.method,
            name.digest,
            name.nth,
            name.call_id,
            params=shown(record.params),
            child_run_id=child_run_id,
        )
        return Entry("intent", name.method, _encoder.encode(intent))

    def _entry(self, record: _Record, reply: Any, error: HostlerError | None) -> Entry:
        data = record.data(reply, error)
        if len(data) > MAX_INLINE_BYTES:  # what is large in it is kept by the effect itself
            data = record.shortened().data(reply, error)
        return Entry("call", record.name.method, data)

    async def _stream(self, call_id: MessageId, call: Call, record: _Record) -> None:
        reply: Any = None
        chunk_type: Any = call.chunk
        pieces = STREAM_FUNCTIONS[call.method](self._scope, record.params)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, chunk_type):
                    record.chunks.append(chunk_record(piece))
                    if not await self._connection.stream(call_id, piece):
                        return
                else:
                    reply = piece
        self._write(record, reply=reply)
        self._connection.reply(call_id, reply)

    async def _call_tool(self, call_id: MessageId, record: _Record, intent: Intent | None) -> None:
        async def write(
            reply: Any,
            error: HostlerError | None,
            *,
            durable: bool,
            settle: Callable[[Tx], None] | None = None,
        ) -> None:
            if durable:
                await self._write_durable(record, reply, error, settle)
            else:
                self._write(record, reply=reply, error=error)

        self.had_effects |= record.effect != "pure"
        reply = await self.tools.call(record.name, record.params, intent, write)
        self._connection.reply(call_id, reply)

    async def _interact(self, call_id: MessageId, record: _Record) -> None:
        """Put a question to a person; the decision is the answer, whatever it is."""
        if self._people is None:
            raise UnauthorizedError("this host cannot put questions to people")
        form: InteractionParams = record.params
        verdict = await self._people.ask(Question("question", record.name, {}, form=form))
        refused = refusal_of(verdict, f"the question {form.title!r:.80}")
        told = verdict.settle
        if refused is not None:
            settle = None if told is None else lambda tx: told(tx, refused)
            await self._write_durable(record, None, refused, settle)
            raise JournalledError(refused)
        decision = Decision(
            call_id=record.name.call_id,
            decision="answered",
            values=verdict.values,
            result=verdict.result,
            comment=verdict.comment,
            decided_by=verdict.decided_by,
        )
        settle = None if told is None else lambda tx: told(tx, None)
        await self._write_durable(record, decision, None, settle)
        self._connection.reply(call_id, decision)

    # -- writing down -----------------------------------------------------------------------------

    def _refuse(self, call_id: MessageId, record: _Record, error: HostlerError) -> None:
        if isinstance(error, JournalledError):
            error = error.error
        else:
            self._write(record, error=error)
        self._connection.refuse(call_id, error)

    def _write(self, record: _Record, *, reply: Any = None, error: HostlerError | None = None) -> None:
        data = record.data(reply, error)
        if len(data) <= MAX_INLINE_BYTES:
            entry = Entry("call", record.name.method, data)
            self._journal.add(Item(entry=entry, synced=False, size=len(data)))
            return
        stored: list[Blob] = []

        async def put() -> None:
            stored.append(await self._blobs.put(data))

        def work(tx: Tx) -> tuple[Entry, Any]:
            return self._outlined(tx, record, stored[-1], reply, error), None

        self._journal.add(Item(before=put, work=work, synced=False, size=len(data)))

    async def _write_durable(
        self,
        record: _Record,
        reply: Any,
        error: HostlerError | None,
        settle: Callable[[Tx], None] | None,
    ) -> None:
        data = record.data(reply, error)
        blob = await self._blobs.put(data) if len(data) > MAX_INLINE_BYTES else None

        def work(tx: Tx) -> tuple[Entry, None]:
            if settle is not None:
                settle(tx)
            if blob is not None:
                return self._outlined(tx, record, blob, reply, error), None
            return Entry("call", record.name.method, data), None

        await self._journal.write(work)

    def _outlined(self, tx: Tx, record: _Record, blob: Blob, reply: Any, error: HostlerError | None) -> Entry:
        """A call whose record is too large to stand in the journal: it lies in the blob folder."""
        reference(tx, blob)
        data = record.outline(blob.size_bytes, reply, error)
        return Entry("call", record.name.method, data, blob=blob.sha256)
