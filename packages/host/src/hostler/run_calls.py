"""The Host API calls of one attempt: gate, work, journal, answer.

A call that changes something is carried out in the transaction that journals it. Reads are journalled
without waiting for the commit. Calls and results share the run's one order.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec

from hostler.calls import CALL_FUNCTIONS, STREAM_FUNCTIONS
from hostler.calls.scope import CallScope, Effect
from hostler.gate import Gate, GatedRun
from hostler.plugins.connection import PluginConnection
from hostler.ports import Tx
from hostler.runlog import Item, RunLog
from hostler.stores.blobs import Blob, BlobFolder, reference
from hostler.stores.journal import MAX_INLINE_BYTES, Entry
from hostler_protocol.calls import Call, CallParams, ModelChunk
from hostler_protocol.errors import DeadlineExceededError, HostlerError, to_fault
from hostler_protocol.frames import MessageId
from hostler_protocol.ids import digest
from hostler_protocol.limits import KIB

log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()

NOT_IN_DIGEST = frozenset({"run_id", "tool_call_id", "upload_id"})
"""Differ between attempts although the call is the same."""
MAX_SHOWN_BYTES = 8 * KIB
"""A parameter longer than this is named by its digest where the whole call is too large for the journal."""


@dataclass(slots=True)
class _Record:
    """One call on its way into the journal."""

    method: str
    digest: str
    nth: int
    params: CallParams | dict[str, Any]
    began: float = field(default_factory=time.monotonic)
    chunks: list[Any] = field(default_factory=list)

    def entry(self, reply: Any = None, error: HostlerError | None = None) -> bytes:
        data: dict[str, Any] = {
            "method": self.method,
            "digest": self.digest,
            "nth": self.nth,
            "params": self.params,
            "ms": round((time.monotonic() - self.began) * 1000, 3),
        }
        if self.chunks:
            data["chunks"] = self.chunks
        if error is not None:
            data["error"] = to_fault(error)
        else:
            data["reply"] = reply
        return _encoder.encode(data)

    def shortened(self) -> _Record:
        """The same with size and digest in the place of large parameters."""
        fields = self.params if isinstance(self.params, dict) else _fields(self.params)
        kept: dict[str, Any] = {}
        for name, value in fields.items():
            encoded = _encoder.encode(value)
            large = len(encoded) > MAX_SHOWN_BYTES
            kept[name] = (
                {"size_bytes": len(encoded), "sha256": sha256(encoded).hexdigest()} if large else value
            )
        return dataclasses.replace(self, params=kept)

    def outline(self, size: int) -> bytes:
        """What stands in the journal where the whole is too large for it."""
        return _encoder.encode(
            {"method": self.method, "digest": self.digest, "nth": self.nth, "size_bytes": size}
        )

    def note(self, chunk: Any) -> None:
        """Remember a chunk; one of nothing but text as that text, which is what nearly all are."""
        if isinstance(chunk, ModelChunk):
            delta = chunk.delta
            if isinstance(delta.content, str) and delta.reasoning is None and not delta.tool_calls:
                self.chunks.append(delta.content)
                return
        self.chunks.append(chunk)


class RunCalls:
    """Carries out the calls of one attempt."""

    def __init__(
        self,
        *,
        gate: Gate,
        blobs: BlobFolder,
        connection: PluginConnection,
        gated: GatedRun,
        scope: CallScope,
        journal: RunLog,
    ) -> None:
        self._gate = gate
        self._blobs = blobs
        self._connection = connection
        self._gated = gated
        self._scope = scope
        self._journal = journal
        self._seen: Counter[tuple[str, str]] = Counter()
        self._tasks: dict[MessageId, asyncio.Task[None]] = {}
        self.had_effects = False
        """Whether a call changed something."""

    def begin(self, call_id: MessageId, method: str, params: CallParams) -> None:
        """Take a call; it is answered when it is done."""
        task = asyncio.create_task(self._carry(call_id, method, params), name=f"{method} {call_id}")
        self._tasks[call_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(call_id, None))

    def give_up(self, call_id: MessageId) -> None:
        """The runner no longer waits for it. What is already on its way into the database stays."""
        task = self._tasks.get(call_id)
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """The attempt is over."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _carry(self, call_id: MessageId, method: str, params: CallParams) -> None:
        try:
            call = self._gate.check(self._gated, self._connection, self._scope.attempt, method, params)
        except HostlerError as error:
            data = _encoder.encode({"method": method, "error": to_fault(error)})
            self._journal.add(Item(entry=Entry("refusal", method[:100], data), synced=False, size=len(data)))
            self._connection.refuse(call_id, error)
            return
        record = self._record(method, params)
        try:
            async with self._deadline():
                await self._journal.settled()  # a run sees what it wrote itself
                if call.chunk is not None:
                    await self._stream(call_id, call, record)
                else:
                    await self._answer(call_id, call, record)
        except HostlerError as error:
            self._refuse(call_id, record, error)
        except Exception:
            # The top of a call's worker: the run is told, the log has the traceback.
            log.exception("run %s: %s failed", self._scope.run_id, method)
            self._refuse(call_id, record, HostlerError(f"the host failed to carry out {method}"))

    def _record(self, method: str, params: CallParams) -> _Record:
        named = digest({k: v for k, v in _fields(params).items() if k not in NOT_IN_DIGEST})
        self._seen[method, named] += 1
        return _Record(method, named, self._seen[method, named], params)

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

    async def _answer(self, call_id: MessageId, call: Call, record: _Record) -> None:
        reply = await CALL_FUNCTIONS[call.method](self._scope, record.params)
        if isinstance(reply, Effect):
            reply = await self._take_effect(record, reply)
        else:
            self._write(record, reply=reply)
        self._connection.reply(call_id, reply)

    async def _take_effect(self, record: _Record, effect: Effect) -> Any:
        def work(tx: Tx) -> tuple[Entry, Any]:
            reply = effect.work(tx)
            refused = reply if isinstance(reply, HostlerError) else None
            data = record.entry(None if refused else reply, refused)
            if len(data) > MAX_INLINE_BYTES:
                # what is large in it is kept by the effect itself
                data = record.shortened().entry(None if refused else reply, refused)
            return Entry("call", record.method, data), reply

        reply = await self._journal.write(work, effect.settled)
        if isinstance(reply, HostlerError):
            raise _JournalledError(reply)
        self.had_effects = True
        return reply if effect.then is None else await effect.then(reply)

    async def _stream(self, call_id: MessageId, call: Call, record: _Record) -> None:
        reply: Any = None
        chunk_type: Any = call.chunk
        async with contextlib.aclosing(STREAM_FUNCTIONS[call.method](self._scope, record.params)) as pieces:
            async for piece in pieces:
                if isinstance(piece, chunk_type):
                    record.note(piece)
                    if not await self._connection.stream(call_id, piece):
                        return
                else:
                    reply = piece
        self._write(record, reply=reply)
        self._connection.reply(call_id, reply)

    def _refuse(self, call_id: MessageId, record: _Record, error: HostlerError) -> None:
        if isinstance(error, _JournalledError):
            error = error.error
        else:
            self._write(record, error=error)
        self._connection.refuse(call_id, error)

    def _write(self, record: _Record, *, reply: Any = None, error: HostlerError | None = None) -> None:
        data = record.entry(reply, error)
        if len(data) <= MAX_INLINE_BYTES:
            item = Item(entry=Entry("call", record.method, data), synced=False, size=len(data))
        else:
            item = self._large(record, data)
        self._journal.add(item)

    def _large(self, record: _Record, data: bytes) -> Item:
        """A call whose record is too large to stand in the journal: it lies in the blob folder."""
        stored: list[Blob] = []

        async def put() -> None:
            stored.append(await self._blobs.put(data))

        def work(tx: Tx) -> tuple[Entry, Any]:
            blob = stored[-1]
            reference(tx, blob)
            return Entry("call", record.method, record.outline(len(data)), blob=blob.sha256), None

        return Item(before=put, work=work, synced=False, size=len(data))


class _JournalledError(HostlerError):
    """A refusal that already stands in the journal, with the effect that was not taken."""

    def __init__(self, error: HostlerError) -> None:
        super().__init__(error.message)
        self.error = error


def _fields(params: CallParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in params.__struct_fields__}
