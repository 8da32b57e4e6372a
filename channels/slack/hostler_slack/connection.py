"""One open connection to Slack: by Socket Mode or requests, events are delivered, and presses answered."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from slack_sdk.signature import SignatureVerifier

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
from hostler_slack.actions import Actions
from hostler_slack.catch_up import CatchUp
from hostler_slack.delivery import Delivery
from hostler_slack.events import Events
from hostler_slack.look_up import LookUp
from hostler_slack.messages import Me, Reader, text_of
from hostler_slack.names import Names
from hostler_slack.position import Position
from hostler_slack.requests import read_request
from hostler_slack.sender import Sender
from hostler_slack.socket_mode import Envelope, Socket, Sockets
from hostler_slack.web_api import WebApi

if TYPE_CHECKING:
    from hostler_slack.channel import Slack

ANSWER_SECONDS = 15.0
"""Time to show a notice to a person."""
MAX_NOTICE_CHARS = 3_000
MAX_AT_ONCE = 64
"""Envelopes that are worked on; while there are so many no more is read."""

logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender
    actions: Actions

    def __init__(self, channel: Slack) -> None:
        settings = channel.settings
        self._channel = channel
        self._by_webhook = settings.get("receive") == "webhook"
        self._bounds = file_bounds(settings)
        self._api = WebApi(
            str(settings.get("token") or ""), str(settings.get("base-url") or "https://slack.com/api/")
        )
        app_token = str(settings.get("app-token") or "")
        secret = str(settings.get("signing-secret") or "")
        if self._by_webhook and not secret.strip():
            raise SetupError("`signing-secret` is needed: without it anybody could send events")
        if not self._by_webhook and not app_token.startswith("xapp-"):
            raise SetupError("`app-token` must be an app-level token, which begins with xapp-")
        self._verifier = SignatureVerifier(secret) if self._by_webhook else None
        self._position = Position(channel.state)
        self._look_up = LookUp(self._api, self._position)
        self.sender = Sender(
            self._api, channel, self._position, self._look_up, previews=settings.get("link-previews") is True
        )
        self.actions = Actions(self._api, self._look_up)
        self._sockets = Sockets(self._api, app_token, channel, self._take, self._want_to_catch_up)
        self._catch_up = CatchUp(self._api, channel, self._position, self._deliver_fetched)
        self._first: Socket | None = None
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._group: asyncio.TaskGroup | None = None

    async def open(self) -> Person | None:
        """Ask who the bot is, and open a socket. Raises ConnectionError."""
        self._api.start()
        account = await self._api.call("auth.test")
        if not self._by_webhook:
            self._first = await self._sockets.open()
        user_id, name = text_of(account.get("user_id")), text_of(account.get("user"))
        if user_id is None:
            raise ConnectionError("Slack does not say who the bot is")
        me = Me(user_id, text_of(account.get("bot_id")), name)
        by_threads = self._channel.settings.get("answer-in-threads") is not False
        reader = Reader(me, Names(self._api), by_threads=by_threads)
        events = Events(reader, self._position.took_part)
        self._delivery = Delivery(
            self._api, self._channel, events, self._position, self._bounds, self._answer
        )
        self.actions.me = user_id
        return Person(person_id=user_id, name=name, is_bot=True)

    async def close(self) -> None:
        """Close the connections."""
        try:
            await self._sockets.close()
        finally:
            await self._api.close()

    async def run(self) -> None:
        """Receive and deliver until cancelled. Raises ConnectionError if Slack refuses the app."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._catch_up.work(), name="catch up")
            self._want_to_catch_up()
            if self._first is None:
                await asyncio.Event().wait()
            else:
                await self._sockets.run(self._first)

    def _want_to_catch_up(self) -> None:
        if self._channel.settings.get("catch-up") is not False:
            self._catch_up.want()

    # -- what comes -------------------------------------------------------------------------------

    async def _take(self, envelope: Envelope) -> None:
        """Work on an envelope; return at once unless too many are worked on."""
        await self._room.acquire()
        assert self._group is not None, "run comes first"
        self._group.create_task(self._envelope(self._group, envelope), name=envelope.envelope_id)

    async def _envelope(self, group: asyncio.TaskGroup, envelope: Envelope) -> None:
        try:
            await asyncio.shield(self._delivery.begin(group, envelope.kind, envelope.payload))
            await envelope.acknowledge()
        finally:
            self._room.release()

    async def _deliver_fetched(self, message: dict[str, Any], chat_id: str) -> None:
        assert self._group is not None, "run comes first"
        await asyncio.shield(self._delivery.begin_fetched(self._group, message, chat_id))

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer a request of Slack: 200 once its events are durable."""
        if self._verifier is None:
            return ChannelResponse(status=404)
        sent = read_request(request, self._verifier)
        if isinstance(sent, ChannelResponse):
            if sent.status == 401:
                logger.warning("a request that Slack did not sign was refused")
            return sent
        if self._group is None:
            return ChannelResponse(status=503)
        try:
            await asyncio.shield(self._delivery.begin(self._group, sent.kind, sent.payload))
        except HostError as error:
            logger.error("what Slack sent could not be delivered: %s", error.message)
            return ChannelResponse(status=503)
        return ChannelResponse(status=200)

    # -- answers to presses -----------------------------------------------------------------------

    def _answer(self, event: ChannelEvent, reply: IngestEventReply) -> None:
        """Show a notice to who pressed, and to nobody else. Nothing waits for it: the event is durable."""
        if reply.notice is None or event.chat is None or event.person is None or self._group is None:
            return
        self._group.create_task(self._show(event, reply.notice), name="notice")

    async def _show(self, event: ChannelEvent, notice: str) -> None:
        assert event.chat is not None
        assert event.person is not None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._api.call(
                    "chat.postEphemeral",
                    channel=event.chat.chat_id,
                    user=event.person.person_id,
                    thread_ts=event.chat.thread_id,
                    text=notice[:MAX_NOTICE_CHARS].replace("&", "&amp;").replace("<", "&lt;"),
                )
        except (NotSent, UnclearError, TimeoutError) as error:
            logger.warning("a notice could not be shown: %s", error)
