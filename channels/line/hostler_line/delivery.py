"""Deliver what LINE sends: those of one chat in order, each once however often it comes, with its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from hostler_line.events import Drafted, Events, chat_id_of_event, id_of, unreadable
from hostler_line.line_api import LineApi
from hostler_line.messages import FileOf
from hostler_line.position import Position
from hostler_sdk.channels import Channel, ChannelEvent, IngestEventReply
from hostler_sdk.channels.attachments import FileBounds, FileUnavailableError, RemoteFile
from hostler_sdk.channels.delivery import Delivery as EventDelivery
from hostler_sdk.channels.lanes import Lanes
from hostler_sdk.channels.malformed import MALFORMED

logger = logging.getLogger(__name__)


class Delivery:
    """Delivers events. `answer` is called with an event and the host's reply once it is durable."""

    def __init__(  # noqa: PLR0917
        self,
        api: LineApi,
        channel: Channel,
        events: Events,
        position: Position,
        bounds: FileBounds,
        answer: Callable[[dict[str, Any], ChannelEvent, IngestEventReply], None],
    ) -> None:
        self._api = api
        self._events = events
        self._position = position
        self._host = EventDelivery(channel, bounds)
        self._answer = answer
        self._lanes = Lanes[None]()

    def begin(self, group: asyncio.TaskGroup, raw: Any) -> asyncio.Task[None]:
        """Deliver one event; the task is done once it is durable.

        What is under way already, as LINE sends again what it waits for too long, is not begun anew.
        """
        fields = raw if isinstance(raw, dict) else {}
        lane, key = chat_id_of_event(fields) or "", id_of(fields.get("webhookEventId"))
        return self._lanes.begin(group, lambda: self._deliver_raw(raw), lane=lane, key=key)

    async def _deliver_raw(self, raw: Any) -> None:
        if not isinstance(raw, dict):
            await self._deliver({}, unreadable(raw, None))
            return
        try:
            drafts = await self._events.of(raw)
        except MALFORMED as error:  # as from a newer LINE: it comes all the same
            logger.warning("an event could not be read", exc_info=error)
            drafts = [unreadable(raw, error)]
        for draft in drafts:
            await self._deliver(raw, draft)

    async def _deliver(self, raw: dict[str, Any], draft: Drafted) -> None:
        files = [self._remote(file) for file in draft.files]
        reply = await self._host.deliver(draft.event, files, state=lambda: self._position.state)
        self._answer(raw, draft.event, reply)

    def _remote(self, file: FileOf) -> RemoteFile:
        return RemoteFile(lambda: self._content(file), file.name, file.mime_type, file.size_bytes)

    async def _content(self, file: FileOf) -> AsyncIterator[bytes]:
        if file.problem is not None:
            raise FileUnavailableError(file.problem, final=True)
        async for piece in self._api.download(file.message_id):
            yield piece
