"""Deliver what DingTalk sends: that of one chat in order, each once however often it comes, with files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hostler_dingtalk.api import Api
from hostler_dingtalk.events import Events, unread
from hostler_dingtalk.fields import fields_of, text_of
from hostler_dingtalk.kept import Kept
from hostler_dingtalk.messages import Drafted, FileOf
from hostler_sdk.channels import Channel, ChannelEvent, IngestEventReply
from hostler_sdk.channels.attachments import FileBounds, RemoteFile
from hostler_sdk.channels.delivery import Delivery as EventDelivery
from hostler_sdk.channels.lanes import Lanes
from hostler_sdk.channels.malformed import MALFORMED, reason_of

logger = logging.getLogger(__name__)


class Delivery:
    """Delivers events. `answer` is called with an event and the host's reply once it is durable."""

    def __init__(  # noqa: PLR0917
        self,
        api: Api,
        channel: Channel,
        kept: Kept,
        robot_code: str,
        bounds: FileBounds,
        answer: Callable[[ChannelEvent, IngestEventReply], None],
    ) -> None:
        self._api = api
        self._kept = kept
        self._robot_code = robot_code
        self._events = Events(kept)
        self._host = EventDelivery(channel, bounds)
        self._answer = answer
        self._lanes = Lanes[None]()

    def begin(
        self, group: asyncio.TaskGroup, kind: str, frame_id: str, data: dict[str, Any]
    ) -> asyncio.Task[None]:
        """Deliver what a frame brings; the task is done once it is durable.

        What is under way already, as DingTalk sends again what it waits for over a minute, is not begun anew.
        """
        key = f"{kind}:{text_of(data.get('msgId')) or frame_id}"
        return self._lanes.begin(group, lambda: self._frame(kind, frame_id, data), lane=_chat(data), key=key)

    async def _frame(self, kind: str, frame_id: str, data: dict[str, Any]) -> None:
        try:
            drafts = self._events.read(kind, frame_id, data)
        except MALFORMED as error:  # as from a newer DingTalk: it comes all the same
            logger.warning("what came could not be read", exc_info=error)
            text = reason_of(error)
            drafts = [unread(kind, frame_id, {"unreadable": text, "dingtalk": data})]
        for draft in drafts:
            await self._deliver(draft)

    async def _deliver(self, draft: Drafted) -> None:
        files = [self._remote(file) for file in draft.files]
        reply = await self._host.deliver(draft.event, files, state=lambda: self._kept.state)
        self._answer(draft.event, reply)

    def _remote(self, file: FileOf) -> RemoteFile:
        return RemoteFile(
            lambda: self._api.download(file.code, self._robot_code), file.name, file.mime_type, None
        )


def _chat(data: dict[str, Any]) -> str:
    """Return what tells the chats of frames from each other."""
    inner = fields_of(data.get("data"))
    found = (data.get("conversationId"), data.get("spaceId"), inner.get("openConversationId"))
    return next((one for one in found if isinstance(one, str)), "")
