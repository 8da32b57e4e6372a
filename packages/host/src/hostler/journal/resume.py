"""Going on where an attempt was lost: its journal is read, and recorded answers wait for their turn."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.outcomes import Step, Warned
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
"""Recorded answers kept in memory by one attempt; what is over is read again when it is asked for."""
_PAGE_ENTRIES = 1_000
_LATEST_ENTRIES = 20
"""Entries looked at once for the last work: between it and the end stand some changes of status."""
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
class Loaded:
    """The journal of a run's attempts since `base_attempt`, read page by page up to `until`.

    `context`: what the first of them began with, None where it never did. `more`: whether pages are left.
    """

    run_id: str
    base_attempt: int
    until: int | None = None
    recording: Recording = field(default_factory=Recording)
    context: AgentRunContext | None = None
    more: bool = True
    _position: int = 0
    """Of the last entry read."""
    _room: int = MAX_KEPT_BYTES

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
        """Read the pages that are left."""
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
        if not head.digest:  # refused before anybody looked at what it was, or not made by the runner
            return
        kept = entry.data if entry.blob is None and len(entry.data) <= self._room else None
        self._room -= 0 if kept is None else len(kept)
        changed = head.error is None and is_effect(head.method, head.effect)
        self.recording.add_call(head.name, entry.position, kept, blob=entry.blob, changed=changed)


def _counts(entry: StoredEntry) -> bool:
    """Whether somebody worked on the run until then, or it went on from a pause: its deadline stood still."""
    if entry.kind == "lifecycle" and entry.type == "queued":
        return _queued.decode(entry.data).before == "paused"
    return entry.kind in _WORKING


def last_worked_at(tx: Tx, run_id: str, position: int) -> int | None:
    """When somebody worked on a run last, before a position of its journal (UTC epoch milliseconds)."""
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
    """The context that the first attempt had; its secrets, which no journal holds, are resolved again."""
    runtime = msgspec.structs.replace(recorded.runtime, deadline_at=deadline_at)
    return msgspec.structs.replace(recorded, attempt=attempt, config=config, runtime=runtime)


def artifact_id_of(run_id: str, base_attempt: int, nth: int) -> str:
    """The id of the n-th artifact that the host names for a run: the same whenever the attempt goes on."""
    return str(uuid.uuid5(uuid.UUID(run_id), f"artifact {base_attempt} {nth}"))


class Resumption:
    """An attempt that goes on from a recording: what its calls and results ask.

    `live` is told once, before anything new is done or stored, with the sequence of the last recorded result
    that was made again; `diverged` with the sentence that names the difference.
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

    def look(self, name: CallName) -> RecordedCall | None:
        """The recorded outcome of a call that the runner has not made yet."""
        return self._forward.look(name)

    def may_answer(self, call: RecordedCall) -> bool:
        """Whether a recorded answer may go out now. Tell `answered` once it has."""
        return call.position is None or self._forward.may_answer(call.position)

    async def read(self, call: RecordedCall) -> RecordedAnswer:
        """Return the recorded answer. Its chunks may be sent at once, the reply in its `turn`."""
        return await self._read(call)

    async def turn(self, call: RecordedCall) -> None:
        """Wait until a recorded answer may go out. Tell `answered` once it has."""
        if call.position is not None:
            await self._turns.wait(call.position)

    def answered(self, call: RecordedCall) -> None:
        """The answer went out, or nobody waits for it any more."""
        self._forward.answered(call)
        self._turns.progressed()

    async def begin(self, method: str, effect: bool, recorded: RecordedCall | None) -> None:
        """A call is to be made for real. With an effect that is not recorded it waits for those that are."""
        if recorded is None and effect:
            await self._turns.may_begin(method)
        self.go_live()

    def take(self, result_type: str, data: bytes) -> bool:
        """Whether a result is not to be stored: it was made again, or is where the attempt diverged.

        False: it is new, and the attempt is live from here on.
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

    def new_ones(self, stream: ResultStream, steps: list[Step], kept: int) -> list[Step]:
        """The steps that do not stand in the journal yet. `kept`: the last completed message before them."""
        new: list[Step] = []
        for step in steps:
            if isinstance(step, Warned):
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
        """Whether the runner may end here; it diverged otherwise."""
        why = self._forward.end_diverges()
        if why is not None:
            self._diverged(why)
        return why is None

    def go_live(self) -> None:
        """From here on the attempt does what no recording holds."""
        if not self._forward.live:
            frontier = self._forward.frontier
            self._forward.go_live()
            self._live(frontier)
            self._turns.progressed()

    @property
    def is_live(self) -> bool:
        """Whether it does so already."""
        return self._forward.live

    @property
    def is_over(self) -> bool:
        """Whether the recording has nothing more to say."""
        return self._forward.is_over

    def close(self) -> None:
        """The attempt is over: call it no more, and let go of it, which refers to this."""
        self._turns.close()
        self._live = lambda _: None
        self._diverged = self._turns.stalled = lambda _: None
