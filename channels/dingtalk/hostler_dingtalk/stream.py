"""Stream mode: connections of dingtalk-stream's client, what comes through them, and its acknowledgement.

The library's own loop cannot be cancelled, starts to work on everything at once and in no order, does not say
why it cannot connect, and drops what comes while it changes connections. So the frames, the handlers and the
acknowledgements are the library's, and the connections are kept here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote_plus

from dingtalk_stream import (
    AckMessage,
    CallbackHandler,
    CallbackMessage,
    Card_Callback_Router_Topic,
    ChatbotMessage,
    Credential,
    DingTalkStreamClient,
    EventHandler,
    EventMessage,
)
from dingtalk_stream.frames import Headers
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidURI, WebSocketException

from hostler_dingtalk.api import Api, RefusedError
from hostler_dingtalk.fields import fields_of, text_of
from hostler_sdk.channels import Channel, NotSent, UnclearError
from hostler_sdk.channels.links import Links
from hostler_sdk.channels.malformed import MALFORMED, reason_of

CONNECT_SECONDS = 20.0
HEARTBEAT_SECONDS = 20.0
"""Between pings to DingTalk, and for their answer: a connection without one is lost."""
MAX_FRAME_BYTES = 4 * 1024 * 1024
IDLE_SECONDS = 300.0
"""A connection on which nothing comes for so long is replaced: DingTalk forgets some that stay open."""
USER_AGENT = "hostler-dingtalk"

Took = Callable[[str, str, dict[str, Any]], Awaitable[None]]
"""Delivers what came: the kind (a callback's topic, or `event`), the id of the frame, and the data."""

_logger = logging.getLogger("hostler_dingtalk.library")
_logger.setLevel(logging.ERROR)  # the library warns of each ping
logger = logging.getLogger(__name__)


class _Callbacks(CallbackHandler):  # type: ignore[misc] # the library has no types
    """Delivers callbacks of one topic; the library acknowledges them when it returns."""

    def __init__(self, topic: str, took: Took) -> None:
        super().__init__()
        self._topic, self._took = topic, took

    async def process(self, message: CallbackMessage) -> tuple[int, Any]:
        """Deliver a callback, and return what is acknowledged."""
        await self._took(self._topic, str(message.headers.message_id), fields_of(message.data))
        return AckMessage.STATUS_OK, {}


class _Events(EventHandler):  # type: ignore[misc] # the library has no types
    """Delivers the events of an organization."""

    def __init__(self, took: Took) -> None:
        super().__init__()
        self._took = took

    async def raw_process(self, event_message: EventMessage) -> AckMessage:
        """Deliver an event, and return that it was taken, as DingTalk expects it."""
        headers = event_message.headers
        told = {
            "eventType": headers.event_type,
            "eventId": headers.event_id,
            "eventBornTime": headers.event_born_time,
            "eventCorpId": headers.event_corp_id,
            "data": fields_of(event_message.data),
        }
        await self._took("event", str(headers.event_id or headers.message_id), told)
        ack = AckMessage()
        ack.headers.message_id = headers.message_id
        ack.headers.content_type = Headers.CONTENT_TYPE_APPLICATION_JSON
        ack.message = "OK"
        ack.data = {"status": "SUCCESS", "message": "success"}
        return ack


class Link(DingTalkStreamClient):  # type: ignore[misc] # the library has no types
    """A connection: the library's client with a socket of its own."""

    def __init__(self, api: Api, took: Took) -> None:
        super().__init__(Credential(api.client_id, api.secret), _logger)
        self._api = api
        self._took = took
        self.since = 0.0
        """When it was made, by the loop's clock."""
        self.register_all_event_handler(_Events(took))
        for topic in (ChatbotMessage.TOPIC, Card_Callback_Router_Topic):
            self.register_callback_handler(topic, _Callbacks(topic, took))
        self.pre_start()

    @property
    def socket(self) -> ClientConnection:
        """The socket; `open` made it."""
        assert isinstance(self.websocket, ClientConnection), "open comes first"
        return self.websocket

    async def open(self) -> None:
        """Ask for an address, and connect. Raises NotSent, UnclearError."""
        topics = [{"type": "EVENT", "topic": "*"}]
        topics += [{"type": "CALLBACK", "topic": topic} for topic in self.callback_handler_map]
        body = {
            "clientId": self._api.client_id,
            "clientSecret": self._api.secret,
            "subscriptions": topics,
            "ua": USER_AGENT,
        }
        answer = await self._api.ask("POST", f"{self._api.base_url}/v1.0/gateway/connections/open", body)
        endpoint, ticket = text_of(answer.get("endpoint")), text_of(answer.get("ticket"))
        secure = self._api.base_url.startswith("https://")
        if (
            endpoint is None
            or ticket is None
            or not endpoint.startswith(("wss://", *([] if secure else ["ws://"])))
        ):
            raise NotSent("DingTalk gave no address for a connection: wss:// is expected")
        try:
            self.websocket = await connect(
                f"{endpoint}?ticket={quote_plus(ticket)}",
                ssl=self._api.tls if endpoint.startswith("wss://") else None,
                user_agent_header=USER_AGENT,
                open_timeout=CONNECT_SECONDS,
                ping_interval=HEARTBEAT_SECONDS,
                ping_timeout=HEARTBEAT_SECONDS,
                close_timeout=1.0,
                max_size=MAX_FRAME_BYTES,
            )
        except (InvalidURI, ValueError):
            raise NotSent("the address that DingTalk gave for a connection is none") from None
        except (WebSocketException, OSError, TimeoutError) as error:
            text = f"{type(error).__name__}: {error}"[:300]
            raise NotSent(f"the connection could not be made: {text}") from None
        self.since = asyncio.get_running_loop().time()

    async def take(self, frame: dict[str, Any]) -> None:
        """Work on a frame, and acknowledge it. What cannot be acknowledged DingTalk sends again."""
        try:
            await self.route_message(frame)
        except ConnectionClosed as error:
            logger.info("a frame could not be acknowledged: %r", error)
        except MALFORMED as error:
            await self._unreadable(frame, error)

    async def _unreadable(self, frame: dict[str, Any], error: Exception) -> None:
        """Deliver what the library cannot read, and acknowledge it: it would come again and again."""
        logger.warning("a frame could not be read", exc_info=error)
        message_id = text_of(fields_of(frame.get("headers")).get("messageId"))
        if message_id is None or frame.get("type") == "SYSTEM":
            return
        text = reason_of(error)
        await self._took("unreadable", message_id, {"unreadable": text, "frame": frame})
        ack = AckMessage()
        ack.headers.message_id = message_id
        try:
            await self.socket.send(json.dumps(ack.to_dict()))
        except ConnectionClosed as closed:
            logger.info("a frame could not be acknowledged: %r", closed)


class Stream(Links[Link]):
    """Keeps one connection. `took` delivers what comes; `start` begins to work on a frame."""

    def __init__(
        self, api: Api, channel: Channel, took: Took, start: Callable[[Awaitable[None]], Awaitable[None]]
    ) -> None:
        super().__init__(channel)
        self._api = api
        self._took = took
        self._start = start

    async def connect(self) -> Link:
        """Make a connection. Raises NotSent, UnclearError."""
        link = Link(self._api, self._took)
        await link.open()
        return link

    async def disconnect(self, link: Link) -> None:
        """Close a connection."""
        await link.socket.close()

    def is_refusal(self, error: NotSent | UnclearError) -> bool:
        """Whether DingTalk refuses the app."""
        return isinstance(error, RefusedError) and error.retry_after is None

    async def read(self, link: Link) -> str | None:
        """Take what comes; return why the connection is lost, or None if it is to be replaced before it is:
        DingTalk is about to close it, or has said nothing for long.
        """
        try:
            while True:
                async with asyncio.timeout(IDLE_SECONDS) as idle:
                    data = await link.socket.recv()
                    idle.reschedule(None)  # the rest waits for the host
                frame = _decoded(data)
                if frame is None:
                    logger.warning("what came through the connection is no frame of DingTalk")
                elif _is_farewell(frame):
                    return None
                else:
                    await self._start(link.take(frame))
        except TimeoutError:
            return None
        except ConnectionClosedOK:
            return "DingTalk closed the connection"
        except ConnectionClosed as error:
            return f"the connection to DingTalk was lost: {error}"[:300]


def _is_farewell(frame: dict[str, Any]) -> bool:
    topic = fields_of(frame.get("headers")).get("topic")
    return frame.get("type") == "SYSTEM" and topic == DingTalkStreamClient.TAG_DISCONNECT


def _decoded(data: str | bytes) -> dict[str, Any] | None:
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return frame if isinstance(frame, dict) else None
