"""Resume a run where an attempt was lost: read its journal, and answer from it what the runner repeats."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.outcomes import ResultWarning, Step
from hostler.domain.recording import (
    RESUMED,
    CallName,
    FastForward,
    RecordedCall,
    Recording,
    Resumed,
    is_effect,
)
from hostler.domain.result_sequence import ResultStream
from hostler.journal.call_records import RecordedAnswer, answer_of, head_of, intent_of
from hostler.journal.turns import Turns
from hostler.storage.port import Database, Tx
from hostler.storage.stores import journal
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.journal import StoredEntry
from hostler_protocol.errors import HostError
from hostler_protocol.events import AgentRunContext
from hostler_protocol.limits import MIB
from hostler_protocol.results import MessageCompleted

MAX_KEPT_BYTES = 16 * MIB
"""Recorded answers kept in memory by one attempt; the others are read again when they are needed."""
_PAGE_ENTRIES = 1_000
_LATEST_ENTRIES = 20
"""Page size for finding the last work of a run: only a few changes of status follow it."""
_WORKING = frozenset({"result", "call", "intent", "refusal", "context", "warning"})
"""Kinds of entries that an attempt under way writes: the deadline counts the time between them."""


class _Result(msgspec.Struct):
    data: msgspec.Raw


class _Queued(msgspec.Struct, rename={"before": "from"}):
    before: str | None = None


_queued = msgspec.json.Decoder(_Queued)
_results = msgspec.json.Decoder(_Result)
_completed = msgspec.json.Decoder(MessageCompleted)
_contexts = msgspec.json.Decoder(AgentRunContext)
_resumed = msgspec.json.Decoder(Resumed)


@dataclass(slots=True)
class RecordingReader:
    """The recording of a run's attempts since `base_attempt`, read page by page up to position `until`.

    `context`: the context of the first of them, None if it never began. `more`: whether pages are left.
    """

    run_id: str
    base_attempt: int
    until: int | None = None
    recording: Recording = field(default_factory=Recording)
    context: AgentRunContext | None = None
    more: bool = True
    _position: int = 0
    """The position of the last entry read."""
    _room: int = MAX_KEPT_BYTES
    """Bytes left for answers in memory."""

    def read_page(self, tx: Tx) -> None:
        """Read the next page."""
        page = journal.page(tx, self.run_id, self._position, _PAGE_ENTRIES)
        self.more = page.more
        for entry in page.items:
            if self.until is not None and entry.position > self.until:
                self.more = False
                return
            self._position = entry.position
            if entry.attempt >= self.base_attempt:
                self._add(entry)

    async def read_rest(self, db: Database) -> None:
        """Read the remaining pages."""
        while self.more:
            await db.read(self.read_page)

    def _add(self, entry: StoredEntry) -> None:
        if _counts(entry):
            self.recording.last_at = entry.at
        match entry.kind:
            case "result":
                self._add_result(entry)
            case "call" | "refusal":
                self._add_call(entry)
            case "intent":
                self._add_intent(entry)
            case "context":
                self.context = _contexts.decode(entry.data)
            case "attempt" if entry.type == RESUMED:
                self.recording.add_resumed(_resumed.decode(entry.data))
            case _:
                pass

    def _add_result(self, entry: StoredEntry) -> None:
        data = bytes(_results.decode(entry.data).data)
        self.recording.add_result(entry.position, entry.sequence or 0, entry.type, data)
        if entry.type == "message.completed":
            message_id = _completed.decode(data).message.message_id
            if message_id is not None:
                self.recording.message_ids.add(message_id)

    def _add_intent(self, entry: StoredEntry) -> None:
        name = intent_of(entry.data).name
        if name.digest:
            self.recording.add_intent(name, entry.data)

    def _add_call(self, entry: StoredEntry) -> None:
        head = head_of(entry.data)
        if not head.digest or head.late:  # of an unknown or external call; or not what its runner was told
            return
        kept = entry.data if entry.blob is None and len(entry.data) <= self._room else None
        self._room -= 0 if kept is None else len(kept)
        changed = head.error is None and is_effect(head.method, head.effect)
        self.recording.add_call(
            head.name, entry.position, kept, blob=entry.blob, changed=changed, alone=head.alone
        )


def _counts(entry: StoredEntry) -> bool:
    """Whether the run was worked on at this entry, or left a pause, in which its deadline stood still."""
    if entry.kind == "lifecycle" and entry.type == "queued":
        return _queued.decode(entry.data).before == "paused"
    return entry.kind in _WORKING


def last_worked_at(tx: Tx, run_id: str, position: int) -> int | None:
    """Return when a run was last worked on before a position of its journal (UTC epoch ms), or None."""
    more = True
    while more:
        page = journal.page_backward(tx, run_id, position, _LATEST_ENTRIES)
        for entry in page.items:
            if _counts(entry):
                return entry.at
            position = entry.position
        more = page.more
    return None


async def read_answer(db: Database, blobs: BlobFolder, run_id: str, call: RecordedCall) -> RecordedAnswer:
    """Return the recorded answer of a call. HostError if it is gone."""
    if call.data is not None:
        return answer_of(call.data)
    if call.position is None:
        raise HostError(f"{call.name.method} has no recorded outcome")
    if call.blob is None:
        after = call.position - 1
        page = await db.read(lambda tx: journal.page(tx, run_id, after, 1))
        return answer_of(page.items[0].data)
    return answer_of(await blobs.read(call.blob, 0, await blobs.size(call.blob)))


def resumed_context(
    recorded: AgentRunContext, attempt: int, config: dict[str, Any], deadline_at: float | None
) -> AgentRunContext:
    """Return the context of the first attempt with another attempt, deadline and resolved configuration.

    `config`: the configuration with its secrets, which no journal has.
    """
    runtime = msgspec.structs.replace(recorded.runtime, deadline_at=deadline_at)
    return msgspec.structs.replace(recorded, attempt=attempt, config=config, runtime=runtime)


def artifact_id_of(run_id: str, base_attempt: int, nth: int) -> str:
    """Return the id of the n-th artifact that the host names for a run: the same in every resumed attempt."""
    return str(uuid.uuid5(uuid.UUID(run_id), f"artifact {base_attempt} {nth}"))


class Resumption:
    """The recording as one resumed attempt uses it: for its calls and its results.

    `live` is called once, before anything new is done or stored, with the sequence of the last recorded
    result that was repeated; `diverged` with a sentence about a difference.
    """

    def __init__(
        self,
        recording: Recording,
        read: Callable[[RecordedCall], Awaitable[RecordedAnswer]],
        *,
        stall_seconds: float,
        live: Callable[[int], None],
        diverged: Callable[[str], None],
    ) -> None:
        self._forward = FastForward(recording)
        self._read = read
        self._live = live
        self._diverged = diverged
        self._turns = Turns(self._forward, stall_seconds, diverged)

    def find(self, name: CallName) -> RecordedCall | None:
        """Return the record of a call that the runner makes now, if there is one."""
        found = self._forward.find(name)
        if found is not None:
            self._turns.progressed()
        return found

    def peek(self, name: CallName) -> RecordedCall | None:
        """Return a call with a recorded outcome, or None; this does not count as the runner's call."""
        return self._forward.peek(name)

    def ahead(self, already: int) -> RecordedCall | None:
        """Return the call whose answer may be sent ahead of it, after `already` such answers; or None."""
        return self._forward.ahead(already)

    def may_answer(self, call: RecordedCall) -> bool:
        """Whether a recorded answer may be delivered now. Call `answered` afterwards."""
        return call.position is None or self._forward.may_answer(call.position)

    async def read(self, call: RecordedCall) -> RecordedAnswer:
        """Return the recorded answer. Its chunks may be sent at once, its reply after `turn`."""
        return await self._read(call)

    async def turn(self, call: RecordedCall) -> None:
        """Wait until a recorded answer may be delivered. Call `answered` afterwards."""
        if call.position is not None:
            await self._turns.wait(call.position)

    def answered(self, call: RecordedCall) -> None:
        """Note that the answer was delivered, or that the runner no longer waits for it."""
        self._forward.answered(call)
        self._turns.progressed()

    async def begin(self, method: str, effect: bool, recorded: RecordedCall | None) -> None:
        """Go live for a call without a recorded outcome.

        A new call with an effect first waits until all recorded ones were requested.
        """
        if recorded is None and effect:
            await self._turns.may_begin(method)
        self.go_live()

    def take(self, result_type: str, data: bytes) -> bool:
        """Return whether a result must not be stored: it was repeated, or the attempt diverged there.

        Otherwise it is new, and the attempt is live.
        """
        verdict = self._forward.take(result_type, data)
        if verdict == "moved":
            self.go_live()
            verdict = self._forward.take(result_type, data)
        if verdict == "again":
            self._turns.progressed()
            return True
        if verdict != "new":
            self._diverged(verdict)
            return True
        self.go_live()
        return False

    def new_steps(self, stream: ResultStream, steps: list[Step], kept: int) -> list[Step]:
        """Return the steps not in the journal yet. `kept`: sequence of the last completed message."""
        new: list[Step] = []
        for step in steps:
            if isinstance(step, ResultWarning):
                if self.is_live:
                    new.append(step)
                continue
            stream.state.take_back(step, kept)
            if step.outcome is not None:
                self.go_live()
            elif self.take(step.type, step.data):
                continue
            new.append(stream.state.renumber(step))
        return new

    def end(self) -> bool:
        """Return whether the runner may end here; otherwise the attempt diverged."""
        why = self._forward.end_diverges()
        if why is not None:
            self._diverged(why)
        return why is None

    def go_live(self) -> None:
        """Note that the attempt does something not recorded; call `live` the first time."""
        if not self._forward.live:
            frontier = self._forward.frontier
            self._forward.go_live()
            self._live(frontier)
            self._turns.progressed()

    @property
    def is_live(self) -> bool:
        """Whether the attempt is beyond the recording."""
        return self._forward.live

    @property
    def is_over(self) -> bool:
        """Whether the recording is used up."""
        return self._forward.is_over

    def close(self) -> None:
        """End the attempt: no callback is called any more; they are released, since they refer to this."""
        self._turns.close()
        self._live = lambda _: None
        self._diverged = self._turns.stalled = lambda _: None
