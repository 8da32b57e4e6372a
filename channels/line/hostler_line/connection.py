"""One open connection to LINE: its calls are delivered, and presses answered."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linebot.v3.webhook import SignatureValidator

from hostler_line.actions import Actions
from hostler_line.delivery import Delivery
from hostler_line.events import Events, chat_id_of_event, fields_of, id_of, text_of
from hostler_line.line_api import LineApi
from hostler_line.names import Names
from hostler_line.position import Position
from hostler_line.reply_tokens import ReplyTokens
from hostler_line.sender import Sender
from hostler_line.webhook import read_request
from hostler_sdk.channels import (
    ChannelConnection,
    ChannelEvent,
    ChannelRequestParams,
    ChannelResponse,
    IngestEventReply,
    NotSent,
    Person,
    SetupError,
    UnclearError,
)
from hostler_sdk.channels.delivery import file_bounds
from hostler_sdk.errors import HostError

if TYPE_CHECKING:
    from hostler_line.channel import Line

MAX_NOTICE_CHARS = 2_000
NOTICE_SECONDS = 60.0
"""Between two notices that are pushed to one person: pushes are counted, and anybody in a group may press."""
MAX_NOTICED = 1_000
DATA_SECONDS = 100.0
"""For one file, with the time in which LINE prepares it."""

logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    def __init__(self, channel: Line) -> None:
        settings = channel.settings
        self._channel = channel
        secret = str(settings.get("channel-secret") or "").strip()
        if not secret:
            raise SetupError("`channel-secret` is needed: without it anybody could send events")
        self._validator = SignatureValidator(secret)
        self._webhook_url = str(settings.get("webhook-url") or "")
        if self._webhook_url and not self._webhook_url.startswith("https://"):
            raise SetupError("`webhook-url` must be the public address of this channel, with https://")
        bounds = replace(file_bounds(settings), seconds=DATA_SECONDS)
        self._api = LineApi(
            token=str(settings.get("token") or ""),
            channel_id=str(settings.get("channel-id") or ""),
            secret=secret,
            base_url=str(settings.get("base-url") or "https://api.line.me"),
            data_url=str(settings.get("data-url") or "https://api-data.line.me"),
        )
        position = Position(channel.state)
        self._tokens = ReplyTokens()
        self.sender = Sender(self._api, channel, position, self._tokens)
        self.actions = Actions(self._api)
        events = Events(Names(self._api), position)
        self._delivery = Delivery(self._api, channel, events, position, bounds, self._answer)
        self._noticed: OrderedDict[str, float] = OrderedDict()
        self._group: asyncio.TaskGroup | None = None

    async def open(self) -> Person | None:
        """Ask who the bot is, and tell LINE the channel's address. Raises ConnectionError."""
        self._api.start()
        account = await self._api.call("GET", "/v2/bot/info")
        if self._webhook_url:
            place = {"endpoint": self._webhook_url}
            await self._api.call("PUT", "/v2/bot/channel/webhook/endpoint", place)
        endpoint = await self._endpoint()
        user_id = id_of(account.get("userId"))
        if user_id is None:
            raise ConnectionError("LINE does not say who the bot is")
        if endpoint.get("active") is False:
            logger.warning("LINE calls no webhook: switch on “Use webhook” in the LINE Developers Console")
        if account.get("chatMode") == "chat":
            logger.warning(
                "the account is in the chat mode, in which people answer; see its response settings"
            )
        return Person(person_id=user_id, name=text_of(account.get("displayName")), is_bot=True)

    async def _endpoint(self) -> dict[str, Any]:
        """Return what LINE says of the webhook. That none is set yet is no error."""
        try:
            return await self._api.call("GET", "/v2/bot/channel/webhook/endpoint")
        except NotSent as error:
            if not error.final:
                raise
            logger.warning("LINE knows no address to call: give it that of this channel")
            return {}

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    # -- what comes -------------------------------------------------------------------------------

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer a call of LINE: 200 once all its events are durable."""
        sent = read_request(request, self._validator)
        if isinstance(sent, ChannelResponse):
            return sent
        if self._group is None:
            return ChannelResponse(status=503)
        for raw in sent:
            self._keep_tokens(fields_of(raw))
        group = self._group
        tasks = [self._delivery.begin(group, raw) for raw in sent]
        try:
            for task in tasks:
                await asyncio.shield(task)
        except HostError as error:
            logger.error("what LINE sent could not be delivered: %s", error.message)
            return ChannelResponse(status=503)
        return ChannelResponse(status=200)

    def _keep_tokens(self, raw: dict[str, Any]) -> None:
        """Keep what the chat can be answered by. Of what is sent again nobody knows how old its token is."""
        message = fields_of(raw.get("message"))
        self._tokens.quotable(message.get("id"), message.get("quoteToken"))
        chat_id, token = chat_id_of_event(raw), id_of(raw.get("replyToken"))
        is_again = fields_of(raw.get("deliveryContext")).get("isRedelivery") is not False
        if chat_id is not None and token is not None and not is_again and raw.get("mode") != "standby":
            self._tokens.came(chat_id, token)

    # -- answers to presses -----------------------------------------------------------------------

    def _answer(self, raw: dict[str, Any], event: ChannelEvent, reply: IngestEventReply) -> None:
        """Show a notice to who pressed, and to nobody else. Nothing waits for it: the event is durable."""
        if reply.notice is None or event.chat is None or event.person is None or self._group is None:
            return
        token = id_of(raw.get("replyToken"))
        notice = {"type": "text", "text": reply.notice[:MAX_NOTICE_CHARS]}
        person_id = event.person.person_id
        if event.chat.kind == "private" and token and self._tokens.take_this(event.chat.chat_id, token):
            body = {"replyToken": token, "messages": [notice]}
            self._group.create_task(self._show("reply", body), name="notice")
        elif self._may_push_to(person_id):
            self._group.create_task(
                self._show("push", {"to": person_id, "messages": [notice]}), name="notice"
            )

    async def _show(self, method: str, body: dict[str, Any]) -> None:
        try:
            await self._api.call("POST", f"/v2/bot/message/{method}", body)
        except (NotSent, UnclearError) as error:  # as to somebody in a group who is no friend of the bot
            logger.warning("a notice could not be shown: %s", error)

    def _may_push_to(self, person_id: str) -> bool:
        now = time.monotonic()
        if now - self._noticed.get(person_id, -NOTICE_SECONDS) < NOTICE_SECONDS:
            return False
        self._noticed[person_id] = now
        self._noticed.move_to_end(person_id)
        while len(self._noticed) > MAX_NOTICED:
            self._noticed.popitem(last=False)
        return True
