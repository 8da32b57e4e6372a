"""Pairing in chats: codes for unknown people, codes for other accounts of those who are known, typed codes.

Everything is decided in one transaction with its answer in the outbox, under an id of the event: an event
that is delivered twice has one answer, and a code one effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hostler.domain.channels import ChannelEntry
from hostler.domain.clock import monotonic_clock
from hostler.domain.envelopes import conversation_id_of, event_id_of
from hostler.domain.pairing import (
    ASKED_TEXT,
    BOUND_TEXT,
    LINK_COMMAND,
    MANY_TEXT,
    OFFERED_TEXT,
    WRONG_TEXT,
    code_in,
    is_private_message,
)
from hostler.domain.token_bucket import TokenBuckets
from hostler.storage.port import Database, Tx
from hostler.storage.stores import channel_people, outbox, pairing_codes, people
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler.storage.stores.people import ChannelAccount
from hostler_protocol.channels import ChannelEvent, ChannelMessage, ChannelTarget
from hostler_protocol.errors import ConflictError, UnavailableError
from hostler_protocol.ids import digest

Taken = Literal["ignored", "decided"]
TRIES_PER_SECOND = 1 / 600
TRIES_BURST = 5.0
"""Codes that one person may type, right or wrong, or ask for: five at once, then one in ten minutes."""
CODES_PER_SECOND = 0.2
CODES_BURST = 30.0
"""Codes for unknown people of one channel: beyond them people are left out in silence, so that nobody has the
bot write to its whole platform."""
MAX_PEOPLE = 10_000
"""People whose tries are counted; the least recently seen one is dropped first."""


@dataclass(eq=False)
class Pairing:
    """What becomes of events of one channel that pair people. `wake` has the outbox looked at."""

    db: Database
    workspace_id: str
    entry: ChannelEntry
    wake: Callable[[], None] = lambda: None
    clock: Callable[[], float] = monotonic_clock
    _tries: TokenBuckets = field(init=False)
    _codes: TokenBuckets = field(init=False)

    def __post_init__(self) -> None:
        self._tries = TokenBuckets(TRIES_PER_SECOND, TRIES_BURST, clock=self.clock, max_buckets=MAX_PEOPLE)
        self._codes = TokenBuckets(CODES_PER_SECOND, CODES_BURST, clock=self.clock, max_buckets=1)

    async def is_known(self, event: ChannelEvent) -> bool:
        """Whether the person of an event is let in as one who was paired."""
        person = event.person
        if person is None:
            return False
        ws, name = self.workspace_id, self.entry.name
        found = await self.db.read(lambda tx: people.find(tx, ws, name, person.person_id), brief=True)
        return found is not None

    async def take(self, event: ChannelEvent, *, unknown: bool) -> Taken | None:
        """Take an event that pairs people; None if it is for agents. `unknown`: its person is not let in yet.

        `decided`: a code was typed or asked for; `ignored`: the person is not let in.
        """
        if event.person is None or not is_private_message(event):
            return "ignored" if unknown else None
        code = code_in(event.text)
        if code is not None and (taken := await self._typed(event, code, unknown=unknown)) is not None:
            return taken
        if unknown:
            await self._ask(event)
            return "ignored"
        if self.entry.pairing and (event.text or "").strip() == LINK_COMMAND:
            return await self._offer(event)
        return None

    async def _typed(self, event: ChannelEvent, code: str, *, unknown: bool) -> Taken | None:
        """Redeem a typed code. What is none, or one try too many, is a message like others."""
        if await self._answered(event):
            return "decided"
        account = _account_of(self.entry.name, event)
        if self._tries.take(account.person_id):
            return "ignored" if unknown else None

        def redeem(tx: Tx) -> str | None:
            try:
                if pairing_codes.redeem(tx, self.workspace_id, code, account) is not None:
                    self._say(tx, event, BOUND_TEXT)
                    return BOUND_TEXT
            except ConflictError:
                self._say(tx, event, MANY_TEXT)
                return MANY_TEXT
            if unknown:
                self._say(tx, event, WRONG_TEXT)
            return None

        said = await self.db.write(redeem)
        self.wake()
        if said is None:
            return "ignored" if unknown else None
        return "decided"

    async def _offer(self, event: ChannelEvent) -> Taken:
        """Show somebody who is let in a code for their other account."""
        if await self._answered(event):
            return "decided"
        account = _account_of(self.entry.name, event)
        if self._tries.take(account.person_id):
            return "ignored"

        def offer(tx: Tx) -> None:
            subject = channel_people.subject_of(tx, self.workspace_id, account.channel, account.person_id)
            try:
                code, _ = pairing_codes.offer(tx, self.workspace_id, subject, by=account.own_subject)
            except UnavailableError as error:
                self._say(tx, event, error.message)
                return
            self._say(tx, event, OFFERED_TEXT.format(code=code))

        await self.db.write(offer)
        self.wake()
        return "decided"

    async def _ask(self, event: ChannelEvent) -> None:
        """Give somebody unknown a code, unless they have one, were rejected, or too many others get codes."""
        account = _account_of(self.entry.name, event)
        assert event.chat is not None
        chat_id, ws = event.chat.chat_id, self.workspace_id

        def has_asked(tx: Tx) -> bool:
            return pairing_codes.has_asked(tx, ws, account.channel, account.person_id)

        if await self.db.read(has_asked) or self._codes.take(account.channel):
            return

        def ask(tx: Tx) -> None:
            code = pairing_codes.ask(tx, ws, account, chat_id)
            if code is not None:
                self._say(tx, event, ASKED_TEXT.format(code=code, link=LINK_COMMAND))

        await self.db.write(ask)
        self.wake()

    async def _answered(self, event: ChannelEvent) -> bool:
        """Whether this event was answered before: it is delivered again."""
        id_ = _delivery_id(self.entry.name, event)
        found = await self.db.read(lambda tx: outbox.find(tx, self.workspace_id, id_))
        return found is not None

    def _say(self, tx: Tx, event: ChannelEvent, text: str) -> None:
        assert event.chat is not None
        target = ChannelTarget(chat_id=event.chat.chat_id, thread_id=event.chat.thread_id)
        name = self.entry.name
        queue_text(tx, self.workspace_id, name, _delivery_id(name, event), target=target, text=text)


def queue_text(
    tx: Tx, workspace_id: str, channel: str, delivery_id: str, *, target: ChannelTarget, text: str
) -> None:
    """Put a short text of the host itself into the outbox."""
    new = NewDelivery(
        delivery_id=delivery_id,
        channel=channel,
        outbound=Outbound(target, ChannelMessage(text=text)),
        conversation_id=conversation_id_of(channel, target.chat_id),
        run_id=None,
    )
    outbox.add(tx, workspace_id, new)


def _delivery_id(channel: str, event: ChannelEvent) -> str:
    return digest(["pairing", event_id_of(channel, event)])[:32]


def _account_of(channel: str, event: ChannelEvent) -> ChannelAccount:
    assert event.person is not None
    assert event.chat is not None
    return ChannelAccount(
        channel=channel,
        person_id=event.person.person_id,
        name=event.person.name,
        conversation_id=conversation_id_of(channel, event.chat.chat_id),
    )
