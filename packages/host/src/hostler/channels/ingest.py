"""Events of one open channel: made envelopes, stored, and only then answered.

Which channel an event is of says the connection, never the message. The answer to an event, and the plugin's
state that came with it, wait until it and every event before it are settled: so a state, like a poll offset,
never runs ahead of an event that is not stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec

from hostler.channels.chat_answers import ChatAnswers
from hostler.channels.files import ChannelFiles, check_count
from hostler.channels.pairing import Pairing
from hostler.channels.typing_sign import TypingSign
from hostler.domain.channels import ChannelEntry, IgnoredBecause, ignored_because
from hostler.domain.envelopes import chat_of, envelope_of, event_id_of, place_of
from hostler.domain.events import Caller
from hostler.domain.place import Place
from hostler.domain.state_order import NOTHING, StateOrder
from hostler.plugins.connection import PluginConnection
from hostler.runs.orchestrator import Accepted
from hostler.storage.port import Database, Tx
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import chats, events
from hostler.storage.stores.channel_connections import Hold
from hostler_protocol.channels import (
    ChannelEvent,
    ChannelManifest,
    IngestCheckParams,
    IngestCheckReply,
    IngestEventParams,
    IngestEventReply,
    IngestFileParams,
    IngestHealthNote,
    IngestReadParams,
    IngestStateParams,
    Person,
)
from hostler_protocol.errors import ConflictError, HostlerError, InvalidArgumentError, UnavailableError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.frames import MessageId
from hostler_protocol.limits import MAX_REASON_CHARS
from hostler_protocol.methods import NoParams

log = logging.getLogger(__name__)


class Accept(Protocol):
    """`Orchestrator.accept`."""

    def __call__(
        self, envelope: EventEnvelope, caller: Caller, /, *, with_it: Callable[[Tx], object]
    ) -> Awaitable[Accepted]:
        """Store an event, and do `with_it` in the same transaction."""


Spawn = Callable[[Coroutine[Any, Any, None]], object]
MAX_AT_ONCE = 32
"""Requests of one channel that are worked on at once; others wait, as many as the protocol lets be open."""
MAX_NAME_CHARS = 200
"""How much is kept of the name that an account has on its platform."""


@dataclass(slots=True, eq=False)
class _Turns:
    """The events of one chat that are worked on: one after the other."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


@dataclass(eq=False)
class Ingest:
    """What the plugin of one open channel says. `spawn` starts a task; `ended` is told why it is over."""

    db: Database
    accept: Accept
    entry: ChannelEntry
    manifest: ChannelManifest
    connection: PluginConnection
    hold: Hold
    files: ChannelFiles
    spawn: Spawn
    ended: Callable[[HostlerError], None]
    answers: ChatAnswers
    typing: TypingSign
    account: Person | None = None
    connected: bool = True
    """Whether messages can be sent, as far as the plugin says how the connection to the platform stands."""
    on_connected: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.pairing = Pairing(self.db, self.hold.workspace_id, self.entry)
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._chats: dict[str, _Turns] = {}
        self._before: asyncio.Event = asyncio.Event()
        """Set once all events and states so far are settled."""
        self._before.set()
        self._states = StateOrder()
        self._health: IngestHealthNote | None = None
        """The newest note that is not written yet."""
        self._noting = False

    # -- from the connection ----------------------------------------------------------------------

    def on_request(self, call_id: MessageId, method: str, params: Any) -> None:
        """Work on a request of the plugin."""
        if isinstance(params, IngestEventParams | IngestStateParams):
            before, self._before = self._before, asyncio.Event()
            self.spawn(self._in_order(call_id, params, before, self._before, self._states.came()))
        else:
            self.spawn(self._answer(call_id, params))

    def on_health(self, note: IngestHealthNote) -> None:
        """Record how the connection to the platform stands: the newest note, however many come."""
        if (account := note.account) is not None:
            name = None if account.name is None else account.name[:MAX_NAME_CHARS]
            self.account = msgspec.structs.replace(account, name=name)
        self.connected = note.health == "connected"
        self.on_connected()
        self._health = msgspec.structs.replace(
            note, reason=note.reason[:MAX_REASON_CHARS], account=self.account
        )
        if not self._noting:
            self._noting = True
            self.spawn(self._note_health())

    def on_lost(self, error: HostlerError) -> None:
        """End: the process is gone, or is being replaced."""
        self.ended(error)

    # -- work -------------------------------------------------------------------------------------

    async def _note_health(self) -> None:
        """Write the newest note; while one is written, newer ones replace each other."""
        try:
            while (note := self._health) is not None:
                self._health = None
                await self._try_write(
                    partial(
                        connections.set_health,
                        hold=self.hold,
                        health=note.health,
                        reason=note.reason,
                        account=note.account,
                    )
                )
        finally:
            self._noting = False

    async def _answer(self, call_id: MessageId, params: Any) -> None:
        async with self._room:
            try:
                match params:
                    case IngestFileParams():
                        reply: Any = await self.files.receive(params)
                    case IngestReadParams():
                        reply = await self.files.read(params)
                    case IngestCheckParams(event=event):
                        reply = IngestCheckReply(wanted=await self._wants(event))
                    case _:
                        raise InvalidArgumentError("this is no request of a channel")
            except HostlerError as error:
                self.connection.refuse(call_id, error)
            else:
                self.connection.reply(call_id, reply)

    async def _in_order(
        self,
        call_id: MessageId,
        params: IngestEventParams | IngestStateParams,
        before: asyncio.Event,
        after: asyncio.Event,
        place: int,
    ) -> None:
        """Store an event, those of one chat in order; then keep the state, and answer."""
        event_id = (
            event_id_of(self.entry.name, params.event) if isinstance(params, IngestEventParams) else None
        )
        try:
            try:
                reply: Any = NoParams()
                if isinstance(params, IngestEventParams):
                    reply = await self._event_in_turn(params)
                await before.wait()
                await self._keep_state(params, event_id, place)
            except HostlerError as error:
                await before.wait()
                if event_id is not None and error.retryable:
                    self._states.refused(event_id, place)
                elif event_id is not None:
                    self._states.settled(event_id, place)
                log.info("channel %s: an event was refused: %s", self.entry.name, error.message)
                self.connection.refuse(call_id, error)
            else:
                self.connection.reply(call_id, reply)
        finally:
            after.set()

    async def _event_in_turn(self, params: IngestEventParams) -> IngestEventReply:
        chat = params.event.chat
        key = "" if chat is None else chat.chat_id
        turns = self._chats.setdefault(key, _Turns())
        turns.waiting += 1
        try:
            async with turns.lock, self._room:
                return await self._event(params)
        finally:
            turns.waiting -= 1
            if not turns.waiting:
                del self._chats[key]

    async def _event(self, params: IngestEventParams) -> IngestEventReply:
        entry, event = self.entry, params.event
        check_count(event.attachments)
        why = await self._ignored_because(event)
        pairs = why is None or (why == "not_allowed" and entry.pairing)
        if pairs and (taken := await self.pairing.take(event, unknown=why is not None)) == "decided":
            await self.db.write(lambda tx: self.files.drop(tx, event.attachments))
            return IngestEventReply(outcome=taken)
        if why is not None:
            log.debug("channel %s: an event is left out: %s", entry.name, why)
            await self._leave_out(params)
            return IngestEventReply(outcome="ignored")
        event_id, ws = event_id_of(entry.name, event), self.hold.workspace_id
        if (reply := await self.answers.take(event, event_id)) is not None:
            await self._try_write(lambda tx: connections.count(tx, self.hold, received=1))
            return reply
        if await self.db.read(lambda tx: events.find(tx, ws, event_id), brief=True) is not None:
            await self.db.write(lambda tx: self.files.drop(tx, event.attachments))
            return IngestEventReply(outcome="duplicate", event_id=event_id)
        place = place_of(entry.name, event, self.account)
        if event.attachments:
            refs = await self.db.read(lambda tx: self.files.known(tx, event.attachments, event_id))
            event = msgspec.structs.replace(event, attachments=refs)
        envelope = envelope_of(entry, self.manifest, event, self.account)
        outcome, run_id = await self._accept(
            envelope, lambda tx: self._store_with(tx, event, event_id, place)
        )
        if run_id is not None:
            self.typing.begin(event, run_id)
        await self._try_write(lambda tx: connections.count(tx, self.hold, received=1))
        return IngestEventReply(outcome=outcome, event_id=event_id)

    def _store_with(self, tx: Tx, event: ChannelEvent, event_id: str, place: Place) -> None:
        """Store what belongs to an event, in its transaction: its files, and what it shows of its chat."""
        self.files.attach(tx, event.attachments, event_id, place)
        if (chat := chat_of(self.entry, event, place)) is not None:
            chats.note(tx, self.hold.workspace_id, chat)

    async def _wants(self, event: ChannelEvent) -> bool:
        """Whether an event would be let in, and is not stored yet."""
        if await self._ignored_because(event) is not None:
            return False
        id_, ws = event_id_of(self.entry.name, event), self.hold.workspace_id
        return await self.db.read(lambda tx: events.find(tx, ws, id_), brief=True) is None

    async def _ignored_because(self, event: ChannelEvent) -> IgnoredBecause | None:
        """Return why an event is left out, or None. Who was paired is let in like who is listed."""
        why = ignored_because(self.entry, event, self.account)
        if why == "not_allowed" and self.entry.pairing and await self.pairing.is_known(event):
            return None
        return why

    async def _accept(
        self, envelope: EventEnvelope, attach: Callable[[Tx], object]
    ) -> tuple[str, str | None]:
        """Store the event with its files; return what became of it, and the run that takes it."""
        caller = Caller(self.hold.workspace_id, self.entry.subject, self.entry.subject)
        try:
            accepted = await self.accept(envelope, caller, with_it=attach)
        except ConflictError as error:
            if "event_id" in error.details:  # delivered twice at once, in another form
                return "duplicate", None
            if "agents" in error.details:  # it is stored; no agent can be told from another
                return "unrouted", None
            raise
        if accepted.duplicate:
            return "duplicate", None
        return accepted.outcome, None if accepted.run is None else accepted.run.run_id

    async def _leave_out(self, params: IngestEventParams) -> None:
        await self.db.write(lambda tx: self.files.drop(tx, params.event.attachments))
        await self._try_write(lambda tx: connections.count(tx, self.hold, ignored=1))

    async def _keep_state(
        self, params: IngestEventParams | IngestStateParams, event_id: str | None, place: int
    ) -> None:
        """Keep the newest state that no event is missing before. UnavailableError."""
        if event_id is not None:
            place = self._states.settled(event_id, place)
        elif self._states.is_behind(place):
            raise UnavailableError("an event before this state is yet to be delivered: it is not kept")
        stated = event_id is None or params.state is not None
        state = self._states.next(place, params.state if stated else NOTHING)
        if state is NOTHING:
            return
        if not await self.db.write(lambda tx: connections.set_state(tx, self.hold, state)):
            raise UnavailableError("another host has this channel now: nothing of it is kept here")

    async def _try_write(self, work: Callable[[Tx], object]) -> None:
        """Write what is for people only; the channel goes on without it."""
        try:
            await self.db.write(work, synced=False)
        except HostlerError as error:
            log.warning("channel %s: %s", self.entry.name, error.message)
