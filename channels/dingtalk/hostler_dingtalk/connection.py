"""One open connection to DingTalk: events are delivered in order of their chats, and presses answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from hostler_dingtalk.actions import Actions
from hostler_dingtalk.api import Api
from hostler_dingtalk.cards import Template
from hostler_dingtalk.delivery import Delivery
from hostler_dingtalk.kept import Kept
from hostler_dingtalk.messages import PRIVATE
from hostler_dingtalk.sender import Sender
from hostler_dingtalk.stream import Link, Stream
from hostler_sdk.channels import (
    ChannelConnection,
    ChannelEvent,
    IngestEventReply,
    NotSent,
    Person,
    UnclearError,
)
from hostler_sdk.channels.delivery import file_bounds

if TYPE_CHECKING:
    from hostler_dingtalk.channel import DingTalk

ANSWER_SECONDS = 15.0
"""Time to show a notice to a person."""
MAX_NOTICE_CHARS = 3_000
MAX_AT_ONCE = 64
"""Frames that are worked on; while there are so many no more is read."""

logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender

    def __init__(self, channel: DingTalk) -> None:
        settings = channel.settings
        self._api = Api(
            _text(settings, "client-id"),
            _text(settings, "client-secret"),
            _text(settings, "base-url") or "https://api.dingtalk.com",
            _text(settings, "files-url") or "https://oapi.dingtalk.com",
        )
        self._robot_code = _text(settings, "robot-code") or self._api.client_id
        kept = Kept(channel.state)
        template = Template(_text(settings, "card-template") or None) if channel.with_cards else None
        self.sender = Sender(self._api, channel, kept, self._robot_code, template)
        self.actions = Actions(self._api, kept, self._robot_code)
        bounds = file_bounds(settings)
        self._delivery = Delivery(self._api, channel, kept, self._robot_code, bounds, self._answer)
        self._stream = Stream(self._api, channel, self._take, self._start)
        self._first: Link | None = None
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._group: asyncio.TaskGroup | None = None

    async def open(self) -> Person | None:
        """Log in, and connect. Raises ConnectionError."""
        self._api.start()
        await self._api.token()
        self._first = await self._stream.open()
        return Person(person_id=self._robot_code, is_bot=True)

    async def close(self) -> None:
        """Close the connections."""
        try:
            await self._stream.close()
        finally:
            await self._api.close()

    async def run(self) -> None:
        """Receive and deliver until cancelled. Raises ConnectionError if DingTalk refuses the app."""
        assert self._first is not None, "open comes first"
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._stream.run(self._first)

    # -- what comes -------------------------------------------------------------------------------

    async def _start(self, work: Awaitable[None]) -> None:
        """Begin to work on a frame; return at once unless too many are worked on."""
        await self._room.acquire()
        assert self._group is not None, "run comes first"
        self._group.create_task(self._in_room(work), name="a frame of DingTalk")

    async def _in_room(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._room.release()

    async def _take(self, kind: str, frame_id: str, data: dict[str, Any]) -> None:
        """Deliver what a frame brings; return once it is durable."""
        assert self._group is not None, "run comes first"
        await asyncio.shield(self._delivery.begin(self._group, kind, frame_id, data))

    def _answer(self, event: ChannelEvent, reply: IngestEventReply) -> None:
        """Show a notice to who pressed, and to nobody else. Nothing waits for it: the event is durable."""
        if reply.notice is not None and event.person is not None and self._group is not None:
            self._group.create_task(self._show(event.person.person_id, reply.notice), name="notice")

    async def _show(self, person_id: str, notice: str) -> None:
        """Write to somebody alone: the answer to a press shows nothing beside the card."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                content = {"content": notice[:MAX_NOTICE_CHARS]}
                await self.sender.message(f"{PRIVATE}{person_id}", "sampleText", content)
        except (NotSent, UnclearError, TimeoutError) as error:
            logger.warning("a notice could not be shown: %s", error)


def _text(settings: dict[str, Any], name: str) -> str:
    return str(settings.get(name) or "").strip()
