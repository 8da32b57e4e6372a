"""Deliver what WeCom sends: those of one member in order, each once however often it comes, with its file.

WeCom waits five seconds for an answer, asks three times more, and then never again. A file may take longer:
its message, and those behind it, are kept with the host first, WeCom gets its answer, and the events follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hostler_sdk.channels import Channel, ChannelEvent, IngestEventReply
from hostler_sdk.channels.attachments import FileBounds, FileUnavailableError, RemoteFile
from hostler_sdk.channels.delivery import Delivery as EventDelivery
from hostler_sdk.errors import Cancelled, HostError
from hostler_wecom.events import Drafted, MediaOf, event_id_of, has_file, read_event, user_of
from hostler_wecom.names import Names
from hostler_wecom.position import Position
from hostler_wecom.web_api import WebApi

Answer = Callable[[Drafted, IngestEventReply], None]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Work:
    """A message that is being delivered. `durable` is done once WeCom may forget it."""

    durable: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Delivery:
    """Delivers events. `answer` is called with an event and the host's reply once it is durable."""

    def __init__(  # noqa: PLR0917
        self,
        api: WebApi,
        channel: Channel,
        names: Names,
        position: Position,
        bounds: FileBounds,
        answer: Answer,
    ) -> None:
        self._api = api
        self._channel = channel
        self._names = names
        self._position = position
        self._host = EventDelivery(channel, bounds)
        self._answer = answer
        self._under_way: dict[str, _Work] = {}
        self._lanes: dict[str | None, asyncio.Task[None]] = {}
        """By member: the last task, after which the next one begins."""

    async def take(self, group: asyncio.TaskGroup, fields: dict[str, Any], sealed: str) -> None:
        """Begin to deliver what WeCom sent; return once it is durable. Raises HostError if it is not.

        What is under way already, as WeCom sends again what it waits for, is not begun anew.
        """
        work = self._under_way.get(event_id_of(fields))
        if work is None:
            work = self._begin(group, fields, sealed)
        await asyncio.shield(work.durable)

    def resume(self, group: asyncio.TaskGroup, fields: dict[str, Any]) -> None:
        """Begin to deliver what an earlier process has kept."""
        self._begin(group, fields, None)

    async def take_unread(self, event: ChannelEvent) -> None:
        """Deliver an event that is made of something unreadable. Raises HostError."""
        await self._deliver(Drafted(event))

    def _begin(self, group: asyncio.TaskGroup, fields: dict[str, Any], sealed: str | None) -> _Work:
        """Begin to deliver. `sealed`: what is kept of it, if need be; None: it is kept already."""
        event_id, user, work = event_id_of(fields), user_of(fields), _Work()
        work.durable.add_done_callback(_looked_at)
        self._under_way[event_id] = work
        before = self._lanes.get(user)

        async def in_turn() -> None:
            try:
                if sealed is None:
                    work.durable.set_result(None)
                elif before is not None or has_file(fields):
                    await self._keep(event_id, sealed, work)
                if before is not None:
                    await asyncio.wait([before])
                await self._in_turn(event_id, fields)
                if not work.durable.done():
                    work.durable.set_result(None)
            except HostError as error:
                if not work.durable.done():
                    work.durable.set_exception(error)
                elif not isinstance(error, Cancelled):
                    logger.error("event %s waits for the next opening: %s", event_id, error.message)
            finally:
                if not work.durable.done():
                    work.durable.set_exception(Cancelled("the channel was closed before it was stored"))

        task = group.create_task(in_turn(), name=f"deliver {event_id}")
        self._lanes[user] = task

        def ended(_: object) -> None:
            self._under_way.pop(event_id, None)
            if self._lanes.get(user) is task:
                del self._lanes[user]

        task.add_done_callback(ended)
        return work

    async def _keep(self, event_id: str, sealed: str, work: _Work) -> None:
        """Keep a message with the host, so that WeCom need not wait; without room there, it has to."""
        if not self._position.put(event_id, sealed):
            return
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:
            self._position.pending.pop(event_id, None)
            if isinstance(error, Cancelled):
                raise
            logger.warning("message %s cannot be kept yet: %s", event_id, error.message)
        else:
            work.durable.set_result(None)

    async def _in_turn(self, event_id: str, fields: dict[str, Any]) -> None:
        user = user_of(fields)
        draft = read_event(fields, None if user is None else await self._names.of(user))
        files = []
        if draft.media is not None and await self._channel.wants(draft.event):
            files.append(await self._remote(draft.media))
        pending = self._position.pending.get(event_id)
        try:
            await self._deliver(draft, files)
        except HostError:
            if pending is not None:
                self._position.pending[event_id] = pending
            raise

    async def _deliver(self, draft: Drafted, files: Iterable[RemoteFile] = ()) -> None:
        event = draft.event
        reply = await self._host.deliver(event, files, state=lambda: self._state_without(event.event_id))
        self._answer(draft, reply)

    def _state_without(self, event_id: str | None) -> dict[str, Any]:
        """Return what is kept once an event is durable: all but its message."""
        self._position.pending.pop(event_id or "", None)
        return self._position.state

    async def _remote(self, media: MediaOf) -> RemoteFile:
        """Return the file with the type and size that WeCom tells with it alone."""
        try:
            head = await self._api.head(media.media_id)
        except FileUnavailableError:  # it is tried again, or named as missing, when it is fetched
            return RemoteFile(lambda: self._api.download(media.media_id), media.name, media.mime_type)
        name = head.name if media.mime_type is None and head.name else media.name
        return RemoteFile(
            lambda: self._api.download(media.media_id),
            name,
            head.mime_type or media.mime_type,
            head.size_bytes,
        )


def _looked_at(future: asyncio.Future[None]) -> None:
    """Take note of an error that nobody waits for any more: WeCom's call may have ended."""
    if not future.cancelled():
        future.exception()
