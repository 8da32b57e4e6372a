"""Deliver what Slack sends: those of one chat in order, each once however often it comes, with its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from hostler_sdk.channels import Channel, ChannelEvent, IngestEventReply, NotSent, UnclearError
from hostler_sdk.channels.attachments import FileBounds, FileUnavailableError, RemoteFile
from hostler_sdk.channels.delivery import Delivery as EventDelivery
from hostler_sdk.channels.lanes import Lanes
from hostler_sdk.channels.malformed import MALFORMED, reason_of
from hostler_slack.events import Events
from hostler_slack.messages import Drafted, FileOf, fields_of, file_of, text_of
from hostler_slack.position import Position
from hostler_slack.web_api import WebApi

_KEPT = ("value", "command", "emoji")
"""Of the data of an event that the host refuses otherwise."""

logger = logging.getLogger(__name__)


class Delivery:
    """Delivers events. `answer` is called with an event and the host's reply once it is durable."""

    def __init__(  # noqa: PLR0917
        self,
        api: WebApi,
        channel: Channel,
        events: Events,
        position: Position,
        bounds: FileBounds,
        answer: Callable[[ChannelEvent, IngestEventReply], None],
    ) -> None:
        self._api = api
        self._events = events
        self._position = position
        self._host = EventDelivery(channel, bounds, kept=_KEPT)
        self._answer = answer
        self._lanes = Lanes[None]()

    def begin(self, group: asyncio.TaskGroup, kind: str, payload: dict[str, Any]) -> asyncio.Task[None]:
        """Deliver what Slack sent; the task is done once it is durable.

        What is under way already, as Slack sends again what it waits for over 3 seconds, is not begun anew.
        """
        return self._lanes.begin(
            group, lambda: self._envelope(kind, payload), lane=_chat(payload), key=_key(kind, payload)
        )

    def begin_fetched(
        self, group: asyncio.TaskGroup, message: dict[str, Any], chat_id: str
    ) -> asyncio.Task[None]:
        """Deliver a message that was fetched."""
        return self._lanes.begin(group, lambda: self._fetched(message, chat_id), lane=chat_id)

    # -- reading ----------------------------------------------------------------------------------

    async def _envelope(self, kind: str, payload: dict[str, Any]) -> None:
        try:
            drafts = await self._events.of(kind, payload)
        except MALFORMED as error:  # as from a newer Slack: it comes all the same
            logger.warning("an event could not be read", exc_info=error)
            drafts = [_unread(kind, payload, error)]
        for number, draft in enumerate(drafts):
            await self._deliver(_numbered(draft, number))

    async def _fetched(self, message: dict[str, Any], chat_id: str) -> None:
        try:
            draft = await self._events.message(message, chat_id)
        except MALFORMED as error:
            logger.warning("a message of the history could not be read", exc_info=error)
            return
        if draft is not None:
            event = msgspec.structs.replace(draft.event, data={**draft.event.data, "caught_up": True})
            await self._deliver(Drafted(event, draft.files))

    # -- delivery ---------------------------------------------------------------------------------

    async def _deliver(self, draft: Drafted) -> None:
        event, files = draft.event, [self._remote(file) for file in draft.files]
        # the position goes past a message when its files are there: others are delivered meanwhile
        reply = await self._host.deliver(event, files, state=lambda: self._state_with(event))
        self._answer(event, reply)

    def _state_with(self, event: ChannelEvent) -> dict[str, Any]:
        """Return what is kept once the event is durable."""
        if event.event_type == "message.received" and event.chat is not None and event.message_id is not None:
            thread = fields_of(event.data.get("slack")).get("thread_ts")
            self._position.came((event.chat.chat_id, text_of(thread)), event.message_id)
        return self._position.state

    def _remote(self, file: FileOf) -> RemoteFile:
        return RemoteFile(lambda: self._content(file), file.name, file.mime_type, file.size_bytes)

    async def _content(self, file: FileOf) -> AsyncIterator[bytes]:
        """Yield a file's content; of files from other workspaces Slack gives the address when asked."""
        if file.look_up:
            try:
                answer = await self._api.call("files.info", file=file.file_id)
            except (NotSent, UnclearError) as error:
                final = isinstance(error, NotSent) and error.final
                raise FileUnavailableError(str(error), final=final) from None
            file = file_of(fields_of(answer.get("file")))
        if file.problem is not None or file.url is None:
            raise FileUnavailableError(file.problem or "Slack gives no address of the file", final=True)
        may_be_html = file.mime_type is None or "html" in file.mime_type
        async for piece in self._api.download(file.url, may_be_html=may_be_html):
            yield piece


def _key(kind: str, payload: dict[str, Any]) -> str | None:
    """Return what tells two deliveries of the same from each other, if Slack says so."""
    return text_of(payload.get("event_id")) if kind == "events_api" else text_of(payload.get("trigger_id"))


def _chat(payload: dict[str, Any]) -> str:
    event = fields_of(payload.get("event"))
    item = fields_of(event.get("item"))
    found = (
        event.get("channel"),
        item.get("channel"),
        payload.get("channel_id"),
        fields_of(payload.get("channel")).get("id"),
    )
    return next((one for one in found if isinstance(one, str)), "")


def _numbered(draft: Drafted, number: int) -> Drafted:
    event = draft.event
    if not number or event.event_id is None or event.event_type == "interaction.submitted":
        return draft
    return Drafted(msgspec.structs.replace(event, event_id=f"{event.event_id}:{number}"), draft.files)


def _unread(kind: str, payload: dict[str, Any], error: Exception) -> Drafted:
    text = reason_of(error)
    event = ChannelEvent(
        event_type="platform.unreadable",
        event_id=_key(kind, payload),
        source_event_type=kind,
        data={"unreadable": text, "slack": payload},
    )
    return Drafted(event)
