"""The live timeline of workspaces: one reader per workspace that is watched, whoever watches what of it.

A watcher is a cursor with a filter. Watchers of the same filter share a channel; the reader of the workspace
puts each entry into the channels that want it, after the commit. What a channel no longer has, or what was
before it, its watchers read from the database, each for itself. So a late or slow watcher sees the same as an
early one and costs no memory, and a workspace that nobody watches costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import msgspec

from hostler.domain.back_off import back_off
from hostler.domain.retention import TimelineLostError
from hostler.journal.feed import DELTA, OWN_POLL_SECONDS, SHARED_POLL_SECONDS, StoredResult
from hostler.journal.timeline_entries import TimelineEntry, TimelinePage, read_page
from hostler.storage.port import Database, Listen, Tx
from hostler.storage.stores import timeline
from hostler.storage.stores.timeline import TimelineRow, digest_of
from hostler_protocol.errors import HostlerError, InvalidArgumentError, StorageError
from hostler_protocol.limits import MIB

RING_BYTES = 4 * MIB
"""Recent entries kept per watched workspace. A watcher further behind than this reads the database."""
BATCH_ENTRIES = 512
"""Entries handed to a watcher at once."""
PACE_SECONDS = 0.01
"""Between two reads of a busy workspace: what is committed meanwhile is read at once."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 5.0
"""Back-off while the database cannot be read."""
PROGRESS_ENTRIES = 10_000
"""After so many entries that its filter leaves out, a watcher is told how far it has come."""
PROGRESS = ""
"""The type of an entry that says only that: everything up to its sequence was seen."""

Everywhere = Literal["run.status", "pause.status", "pause.call"]
"""Types that say what changed, and not what was said: they may be followed beside a conversation."""
log = logging.getLogger("hostler.journal")


class TimelineFilter(msgspec.Struct, frozen=True):
    """What a watcher wants of a workspace: all that fits each field that is not None.

    `everywhere`: types that are wanted of the whole workspace as well, whatever the other fields say.
    """

    workspace_id: str
    conversation_id: str | None = None
    agent: str | None = None
    bot_id: str | None = None
    types: frozenset[str] | None = None
    everywhere: frozenset[Everywhere] = frozenset()

    @property
    def only_conversation(self) -> str | None:
        """The conversation outside of which nothing is wanted."""
        return None if self.everywhere else self.conversation_id

    def wants_row(self, row: TimelineRow) -> bool:
        """Whether a row may hold entries that are wanted."""
        if row.kind == "deletion":
            return self.conversation_id is None or row.conversation_id == digest_of(self.conversation_id)
        if self.everywhere and row.kind == "journal":
            return True
        return self._fits(row.conversation_id, row.agent_name, row.bot_id)

    def wants(self, entry: TimelineEntry) -> bool:
        """Whether an entry is wanted."""
        if entry.type in self.everywhere:
            return True
        if self.types is not None and entry.type not in self.types:
            return False
        if entry.type == "conversation.deleted":
            return self.conversation_id is None or entry.conversation_id == digest_of(self.conversation_id)
        return self._fits(entry.conversation_id, entry.agent_name, entry.bot_id)

    @property
    def wants_deltas(self) -> bool:
        """Whether pieces of messages are wanted."""
        return self.types is None or DELTA in self.types

    def _fits(self, conversation_id: str | None, agent: str | None, bot_id: str | None) -> bool:
        return (
            (self.conversation_id is None or conversation_id == self.conversation_id)
            and (self.agent is None or agent == self.agent)
            and (self.bot_id is None or bot_id == self.bot_id)
        )


@dataclass(eq=False, slots=True)
class _Channel:
    """The recent entries of one filter: complete from after `start` to the cursor of its reader."""

    filter: TimelineFilter
    reader: _Reader
    recent: deque[TimelineEntry] = field(default_factory=deque)
    start: int | None = None
    """None until the reader reads for it."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    watchers: int = 0

    def wake(self) -> None:
        # a new Event per change: waiters of the old one wake without racing a clear()
        self.changed.set()
        self.changed = asyncio.Event()

    def after(self, sequence: int) -> list[TimelineEntry] | None:
        """Return entries after `sequence`; None if it does not have the next one."""
        if self.start is None or sequence < self.start:
            return None
        newest = []
        for entry in reversed(self.recent):
            if entry.sequence <= sequence:
                break
            newest.append(entry)
        newest.reverse()
        return newest[:BATCH_ENTRIES]


class _Reader:
    """Reads the timeline of one workspace for all channels."""

    def __init__(self, ws: str, cursor: int) -> None:
        self.workspace_id = ws
        self.cursor = self._told = cursor
        self.channels: dict[TimelineFilter, _Channel] = {}
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        self._by_conversation: dict[str, list[_Channel]] = {}
        self._wide: list[_Channel] = []
        self._interest: Callable[[TimelineRow], bool] | None = None
        self._ring: deque[TimelineEntry] = deque()
        self._bytes = 0

    def add(self, channel: _Channel) -> None:
        self.channels[channel.filter] = channel
        self._lists(channel).append(channel)
        if (conversation := channel.filter.only_conversation) is not None:
            self._by_conversation.setdefault(digest_of(conversation), []).append(channel)
        self._interest = None

    def remove(self, channel: _Channel) -> None:
        del self.channels[channel.filter]
        self._lists(channel).remove(channel)
        if (conversation := channel.filter.only_conversation) is not None:
            self._by_conversation[digest_of(conversation)].remove(channel)
            for name in (conversation, digest_of(conversation)):
                if not self._by_conversation[name]:
                    del self._by_conversation[name]
        self._interest = None

    def _lists(self, channel: _Channel) -> list[_Channel]:
        conversation = channel.filter.only_conversation
        return self._wide if conversation is None else self._by_conversation.setdefault(conversation, [])

    def interest(self) -> Callable[[TimelineRow], bool]:
        """Return what the channels want at this moment; it is called on another thread."""
        if self._interest is None:
            conversations = frozenset(self._by_conversation)
            wide = tuple(channel.filter for channel in self._wide)
            self._interest = partial(_is_wanted, conversations, wide)
        return self._interest

    @property
    def wants_deltas(self) -> bool:
        return any(one.wants_deltas for one in self.channels)

    def put(self, entries: list[TimelineEntry]) -> None:
        """Put entries into the channels that want them, and wake their watchers."""
        changed: dict[_Channel, None] = {}
        for entry in entries:
            taken = self._takers(entry)
            for channel in taken:
                channel.recent.append(entry)
                changed[channel] = None
            if taken:
                self._ring.append(entry)
                self._bytes += len(entry.json)
        while self._bytes > RING_BYTES and len(self._ring) > 1:
            self._drop(self._ring.popleft())
        for channel in changed:
            channel.wake()

    def come_far(self) -> list[_Channel]:
        """Return all channels each PROGRESS_ENTRIES: their watchers note how far they have come."""
        if self.cursor - self._told < PROGRESS_ENTRIES:
            return []
        self._told = self.cursor
        return list(self.channels.values())

    def _takers(self, entry: TimelineEntry) -> list[_Channel]:
        found = self._wide
        if entry.conversation_id is not None and (of := self._by_conversation.get(entry.conversation_id)):
            found = [*found, *of]
        return [one for one in found if one.start is not None and one.filter.wants(entry)]

    def _drop(self, oldest: TimelineEntry) -> None:
        self._bytes -= len(oldest.json)
        for channel in self._takers(oldest):
            if channel.recent and channel.recent[0] is oldest:
                channel.recent.popleft()
                channel.start = oldest.sequence


def _check_kept(tx: Tx, wanted: TimelineFilter, after: int) -> None:
    if after < timeline.floor(tx, wanted.workspace_id):
        raise TimelineLostError(wanted.conversation_id)


def _is_wanted(conversations: frozenset[str], wide: tuple[TimelineFilter, ...], row: TimelineRow) -> bool:
    return row.conversation_id in conversations or any(one.wants_row(row) for one in wide)


class TimelineFeed:
    """The live timelines of the workspaces of one database. Belongs to one event loop at a time.

    `listen`: of the database; without it, and for what other hosts commit, it looks every `poll_seconds`.
    """

    def __init__(self, db: Database, listen: Listen | None = None, poll_seconds: float | None = None) -> None:
        self._db = db
        self._listen_to = listen
        own = SHARED_POLL_SECONDS if db.shared else OWN_POLL_SECONDS
        self._poll_seconds = own if poll_seconds is None else poll_seconds
        self._readers: dict[str, _Reader] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def watchers(self) -> int:
        """The number of watchers."""
        channels = [one for reader in self._readers.values() for one in reader.channels.values()]
        return sum(channel.watchers for channel in channels)

    async def head(self, ws: str) -> int:
        """Return the last sequence of a workspace: a watcher after it sees what comes from now on."""
        return await self._db.read(partial(timeline.head, ws=ws), brief=True)

    async def check(self, wanted: TimelineFilter, after: int) -> None:
        """Check a cursor. TimelineLostError if what follows it was removed; InvalidArgumentError if it is
        ahead of the last entry: it is of another database, or of one that was restored since.
        """

        def read(tx: Tx) -> int:
            _check_kept(tx, wanted, after)
            return timeline.head(tx, wanted.workspace_id)

        if await self._db.read(read, brief=True) < after:
            raise InvalidArgumentError(
                "this cursor is ahead of the last entry: the database was restored since; begin without one"
            )

    async def start(self, ws: str) -> int:
        """Return the sequence before the first one that is kept."""
        return await self._db.read(partial(timeline.floor, ws=ws), brief=True)

    async def watch(self, wanted: TimelineFilter, after: int) -> AsyncIterator[list[StoredResult]]:
        """Yield the wanted entries after a sequence in batches, each once and in order, for ever.

        An entry of type PROGRESS says only that all up to its sequence was seen. TimelineLostError if what
        follows `after` was removed; the error of the database once it is closed.
        """
        channel = await self._joined(wanted)
        channel.watchers += 1
        try:
            async for batch in self._follow(channel, after):
                yield batch
        finally:
            channel.watchers -= 1
            if not channel.watchers:
                self._leave(channel)

    async def _follow(self, channel: _Channel, after: int) -> AsyncIterator[list[StoredResult]]:
        reader, wanted, told = channel.reader, channel.filter, after
        while True:
            if reader.error is not None:
                raise reader.error
            changed = channel.changed
            found = channel.after(after)
            if found is None:
                page = await self._page(wanted, after)
                found, after, more = [one for one in page.entries if wanted.wants(one)], page.until, page.more
            elif found:
                after, more = found[-1].sequence, True
            else:
                after, more = max(after, reader.cursor), False
            if not found and after - told >= PROGRESS_ENTRIES:
                found = [TimelineEntry(after, PROGRESS, b"")]
            for start in range(0, len(found), BATCH_ENTRIES):
                told = found[-1].sequence
                yield [*found[start : start + BATCH_ENTRIES]]
            if not (found or more or channel.after(after)):
                await changed.wait()

    async def _page(self, wanted: TimelineFilter, after: int) -> TimelinePage:
        def read(tx: Tx) -> TimelinePage:
            _check_kept(tx, wanted, after)
            return read_page(
                tx,
                wanted.workspace_id,
                after,
                conversation_id=wanted.only_conversation,
                wants=wanted.wants_row,
                deltas=wanted.wants_deltas,
            )

        return await self._db.read(read)

    # -- channels and readers -------------------------------------------------------------------------------

    async def _joined(self, wanted: TimelineFilter) -> _Channel:
        """Return the channel of a filter, and start the reader of its workspace if there is none."""
        ws = wanted.workspace_id
        reader = self._readers.get(ws)
        if reader is None:
            cursor = await self.head(ws)
            reader = self._readers.get(ws)  # another watcher may have started it meanwhile
            if reader is None:
                reader = self._readers[ws] = _Reader(ws, cursor)
                self._listen()
                reader.task = asyncio.create_task(self._read(reader), name=f"timeline of {ws}")
        channel = reader.channels.get(wanted)
        if channel is None:
            channel = _Channel(wanted, reader)
            reader.add(channel)
            reader.woken.set()
        return channel

    def _leave(self, channel: _Channel) -> None:
        reader = channel.reader
        reader.remove(channel)
        if not reader.channels:
            if self._readers.get(reader.workspace_id) is reader:
                del self._readers[reader.workspace_id]
            if reader.task is not None:
                reader.task.cancel()
            if not self._readers and self._listen_to is not None:
                self._listen_to(None)

    def _listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._listen_to is not None:
            self._listen_to(self._committed)

    def _committed(self, workspaces: frozenset[str]) -> None:
        """Wake the readers of workspaces. Called on the writing thread."""
        watched = [reader for ws in workspaces if (reader := self._readers.get(ws)) is not None]
        if watched and self._loop is not None and not self._loop.is_closed():
            for reader in watched:
                self._loop.call_soon_threadsafe(reader.woken.set)

    async def _read(self, reader: _Reader) -> None:
        """Read what is committed, for all channels, until no channel is left."""
        failures = 0
        while True:
            reader.woken.clear()
            try:
                page = await self._read_for_all(reader)
                failures = 0
            except StorageError as error:
                failures += 1
                log.warning("streams of workspace %s wait: %s", reader.workspace_id, error.message)
                await asyncio.sleep(back_off(failures, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS))
                continue
            except Exception as error:  # noqa: BLE001  top of a worker: each stream ends with it
                self._end(reader, error)
                return
            if page.entries:
                await asyncio.sleep(PACE_SECONDS)
            elif not page.more:
                await self._wait(reader)

    async def _wait(self, reader: _Reader) -> None:
        try:
            async with asyncio.timeout(self._poll_seconds):
                await reader.woken.wait()
        except TimeoutError:
            return

    async def _read_for_all(self, reader: _Reader) -> TimelinePage:
        new = [channel for channel in reader.channels.values() if channel.start is None]
        for channel in new:
            channel.start = reader.cursor
        after = reader.cursor
        ws, wants, deltas = reader.workspace_id, reader.interest(), reader.wants_deltas
        page = await self._db.read(
            lambda tx: read_page(tx, ws, after, conversation_id=None, wants=wants, deltas=deltas)
        )
        reader.put(page.entries)
        reader.cursor = page.until
        for channel in reader.come_far() or new:
            channel.wake()
        return page

    def _end(self, reader: _Reader, error: Exception) -> None:
        if not isinstance(error, HostlerError):
            log.error("the reader of workspace %s failed", reader.workspace_id, exc_info=error)
        reader.error = error
        if self._readers.get(reader.workspace_id) is reader:
            del self._readers[reader.workspace_id]
        for channel in reader.channels.values():
            channel.wake()
