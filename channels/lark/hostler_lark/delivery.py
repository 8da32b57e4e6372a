"""Deliver what Lark sends: those of one chat in order, each once however often it comes, with its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from hostler_lark.api import Api
from hostler_lark.events import PRESS, Events, envelope_of
from hostler_lark.messages import Drafted, FileOf
from hostler_lark.names import fields_of, text_of
from hostler_sdk.channels import Channel, ChannelEvent, IngestEventReply
from hostler_sdk.channels.attachments import FileBounds, FileUnavailableError, RemoteFile
from hostler_sdk.channels.delivery import Delivery as EventDelivery
from hostler_sdk.channels.lanes import Lanes
from hostler_sdk.channels.malformed import MALFORMED, reason_of

_KEPT = ("value", "command", "emoji")
"""Of the data of an event that the host refuses otherwise."""

logger = logging.getLogger(__name__)

Replies = list[IngestEventReply]


class Delivery:
    """Delivers the events of one app."""

    def __init__(self, api: Api, channel: Channel, events: Events, bounds: FileBounds) -> None:
        self._api = api
        self._channel = channel
        self._events = events
        self._host = EventDelivery(channel, bounds, kept=_KEPT)
        self._lanes = Lanes[Replies]()

    def begin(self, group: asyncio.TaskGroup, payload: dict[str, Any]) -> asyncio.Task[Replies]:
        """Deliver what Lark sent; the task is done once it is durable, and has the host's replies.

        What is under way already, as Lark sends again what it waits for over 3 seconds, is not begun anew.
        """
        told = envelope_of(payload)
        # a press is answered within three seconds: it waits for no files
        lane = None if told.kind == PRESS else _chat(told.event)
        return self._lanes.begin(group, lambda: self._deliver_all(payload), lane=lane, key=told.event_id)

    async def _deliver_all(self, payload: dict[str, Any]) -> Replies:
        try:
            drafts = await self._events.of(payload)
        except MALFORMED as error:  # as from a newer Lark: it comes all the same
            logger.warning("an event could not be read", exc_info=error)
            drafts = [_unread(payload, error)]
        return [await self._deliver(draft) for draft in drafts]

    async def _deliver(self, draft: Drafted) -> IngestEventReply:
        files = draft.files
        if any(one.kind == "image" for one in files) and not await self._channel.wants(draft.event):
            files = []  # Lark is not asked what they are, either
        return await self._host.deliver(draft.event, [await self._remote(one) for one in files])

    async def _remote(self, file: FileOf) -> RemoteFile:
        mime_type, name = file.mime_type, file.name
        if file.kind == "image" and (mime_type := await self._image_type(file)) is not None:
            name = f"image.{mime_type.rpartition('/')[2].replace('jpeg', 'jpg')}"
        return RemoteFile(lambda: self._content(file), name, mime_type)

    async def _content(self, file: FileOf) -> AsyncIterator[bytes]:
        if file.problem is not None:
            raise FileUnavailableError(file.problem, final=True)
        async for piece in self._api.download(file.message_id, file.key, file.kind):
            yield piece

    async def _image_type(self, file: FileOf) -> str | None:
        """Return what an image is: only the answer with it says so."""
        try:
            async with self._api.resource(file.message_id, file.key, file.kind) as answer:
                kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        except FileUnavailableError:
            return None  # it is tried again as a file
        return kind if kind.startswith("image/") else None


def _chat(event: dict[str, Any]) -> str | None:
    return text_of(fields_of(event.get("message")).get("chat_id")) or text_of(event.get("chat_id"))


def _unread(payload: dict[str, Any], error: Exception) -> Drafted:
    told = envelope_of(payload)
    event = ChannelEvent(
        event_type="platform.unreadable",
        event_id=told.event_id,
        source_event_type=told.kind,
        data={"unreadable": reason_of(error), "lark": payload},
    )
    return Drafted(event)
