"""One open connection to Lark: by long connection or requests, events are delivered, and presses answered."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, Any

from hostler_lark.actions import Actions
from hostler_lark.api import DOMAINS, Api
from hostler_lark.delivery import Delivery, Replies
from hostler_lark.events import Events, Me
from hostler_lark.frames import Sent
from hostler_lark.long_connection import LongConnection, Socket
from hostler_lark.names import Names, fields_of, text_of
from hostler_lark.requests import Secrets, json_response, read_request
from hostler_lark.sender import Sender
from hostler_lark.uploads import Uploads
from hostler_sdk.channels import (
    ChannelConnection,
    ChannelRequestParams,
    ChannelResponse,
    Person,
    SetupError,
)
from hostler_sdk.channels.delivery import file_bounds
from hostler_sdk.errors import HostError

MAX_NOTICE_CHARS = 200
"""Of what is shown to a person who pressed a button."""
MAX_AT_ONCE = 64
"""Events that are worked on; while there are so many no more is read."""

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from hostler_lark.channel import Lark


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender
    actions: Actions

    def __init__(self, channel: Lark) -> None:
        settings = channel.settings
        self._channel = channel
        self._bounds = file_bounds(settings)
        self._secrets = _secrets_of(settings) if settings.get("receive") == "webhook" else None
        base_url = settings.get("base-url") or DOMAINS.get(str(settings.get("domain") or "feishu"), "")
        self._api = Api(
            str(settings.get("app-id") or ""), str(settings.get("app-secret") or ""), str(base_url)
        )
        self._names = Names(self._api)
        uploads = Uploads(self._api, channel)
        self.sender = Sender(self._api, self._names, uploads, quote=settings.get("quote") is not False)
        self.actions = Actions(self._api)
        self._long = LongConnection(self._api, channel, self._take)
        self._first: Socket | None = None
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._group: asyncio.TaskGroup | None = None

    async def open(self) -> Person | None:
        """Ask who the bot is, and open the long connection. Raises ConnectionError."""
        self._api.start()
        told = fields_of((await self._api.call("GET", "/open-apis/bot/v3/info")).get("bot"))
        if self._secrets is None:
            self._first = await self._long.open()
        open_id, name = text_of(told.get("open_id")), text_of(told.get("app_name"))
        if open_id is None:
            raise ConnectionError("Lark does not say who the bot is: add the feature Bot to the app")
        by_threads = self._channel.settings.get("answer-in-threads") is True
        events = Events(Me(open_id, self._api.app_id, name), self._names, by_threads=by_threads)
        self._delivery = Delivery(self._api, self._channel, events, self._bounds)
        return Person(person_id=open_id, name=name, is_bot=True)

    async def close(self) -> None:
        """Close the connections."""
        try:
            await self._long.close()
        finally:
            await self._api.close()

    async def run(self) -> None:
        """Receive and deliver until cancelled. Raises ConnectionError if Lark refuses the app."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            if self._first is None:
                await asyncio.Event().wait()
            else:
                await self._long.run(self._first)

    # -- what comes -------------------------------------------------------------------------------

    async def _take(self, socket: Socket, sent: Sent) -> None:
        """Work on an event; return at once unless too many are worked on."""
        await self._room.acquire()
        assert self._group is not None, "run comes first"
        self._group.create_task(self._received(self._group, socket, sent), name="event of Lark")

    async def _received(self, group: asyncio.TaskGroup, socket: Socket, sent: Sent) -> None:
        began = time.monotonic()
        try:
            payload = _object(sent.payload)
            if payload is None:
                logger.warning("an event of Lark is no object, and was left out")
                await socket.answer(sent, 500, None, began)
                return
            replies = await asyncio.shield(self._delivery.begin(group, payload))
            await socket.answer(sent, 200, _toast(replies), began)
        finally:
            self._room.release()

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer a request of Lark: 200 once its event is durable."""
        if self._secrets is None:
            return ChannelResponse(status=404)
        payload = read_request(request, self._secrets)
        if isinstance(payload, ChannelResponse):
            if payload.status == 401:
                logger.warning("a request that is not Lark's, or too old, was refused")
            return payload
        if self._group is None:
            return ChannelResponse(status=503)
        try:
            replies = await asyncio.shield(self._delivery.begin(self._group, payload))
        except HostError as error:
            logger.error("what Lark sent could not be delivered: %s", error.message)
            return ChannelResponse(status=503)
        return json_response(_toast(replies) or {})


def _toast(replies: Replies) -> dict[str, Any] | None:
    """Return the answer to a press: a notice, which is shown to who pressed and to nobody else."""
    notice = next((one.notice for one in replies if one.notice), None)
    return None if notice is None else {"toast": {"type": "info", "content": notice[:MAX_NOTICE_CHARS]}}


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _secrets_of(settings: dict[str, Any]) -> Secrets:
    token = str(settings.get("verification-token") or "").strip()
    encrypt_key = str(settings.get("encrypt-key") or "").strip()
    if not token and not encrypt_key:
        text = "`encrypt-key` or `verification-token` is needed: without them anybody could send events"
        raise SetupError(text)
    return Secrets(token, encrypt_key)
