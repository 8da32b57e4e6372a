"""Socket Mode: an address for a socket, envelopes that come through it, and their acknowledgement.

The socket client of slack-sdk starts a task for each envelope at once, without bound or order, does not say
when a socket is lost, and tries one address for ever, which Slack takes back after half a minute. So the
library's Web API client asks for addresses, and the sockets are kept here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError, ClientWebSocketResponse, WSMsgType
from slack_sdk.socket_mode.response import SocketModeResponse

from hostler_sdk.channels import Channel, NotSent, UnclearError
from hostler_sdk.channels.links import Links
from hostler_slack.web_api import RefusedError, WebApi

HELLO_SECONDS = 20.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What came through a socket."""

    socket: Socket
    envelope_id: str
    kind: str
    payload: dict[str, Any]

    async def acknowledge(self) -> None:
        """Tell Slack that it is durable here. If that fails, Slack sends it again."""
        try:
            await self.socket.ws.send_str(json.dumps(SocketModeResponse(self.envelope_id).to_dict()))
        except (ClientError, ConnectionError, RuntimeError) as error:
            logger.info("an envelope could not be acknowledged: %r", error)


@dataclass(frozen=True, slots=True)
class Socket:
    """An open socket, and when it was opened, by the loop's clock."""

    ws: ClientWebSocketResponse
    since: float


class Sockets(Links[Socket]):
    """Keeps one socket open. `take` is given each envelope, `again` is called once a gap is over."""

    def __init__(
        self,
        api: WebApi,
        app_token: str,
        channel: Channel,
        take: Callable[[Envelope], Awaitable[None]],
        again: Callable[[], None],
    ) -> None:
        super().__init__(channel)
        self._api = api
        self._app_token = app_token
        self._take = take
        self._again = again

    async def connect(self) -> Socket:
        """Open a socket. Raises NotSent, UnclearError."""
        answer = await self._api.call("apps.connections.open", app_token=self._app_token)
        socket = Socket(await self._api.connect(str(answer.get("url"))), asyncio.get_running_loop().time())
        self.hold(socket)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = _decoded(await socket.ws.receive())
        except TimeoutError:
            hello = None
        if hello is None or hello.get("type") != "hello":
            await self.drop(socket)
            raise NotSent("the socket was opened, and Slack did not say hello in it")
        count = hello.get("num_connections")
        if isinstance(count, int) and count > self.count:
            logger.warning("%s programs are connected to this app: each gets a part of its events", count)
        return socket

    async def disconnect(self, link: Socket) -> None:
        """Close a socket."""
        await link.ws.close()

    def is_refusal(self, error: NotSent | UnclearError) -> bool:
        """Whether Slack refuses the app."""
        return isinstance(error, RefusedError) and error.retry_after is None

    def regained(self) -> None:
        """A gap is over."""
        self._again()

    async def read(self, link: Socket) -> str | None:
        """Take what comes; return why the socket is lost, or None if Slack is about to close it."""
        async for frame in link.ws:
            message = _decoded(frame)
            if message is None:
                logger.warning("what came through the socket is no message of Slack, and was left out")
                continue
            kind, envelope_id = message.get("type"), message.get("envelope_id")
            if kind == "disconnect":
                return None
            if isinstance(envelope_id, str) and isinstance(kind, str):
                payload = message.get("payload")
                payload = payload if isinstance(payload, dict) else {"payload": payload}
                await self._take(Envelope(link, envelope_id, kind, payload))
        return f"Slack closed the connection (code {link.ws.close_code})"


def _decoded(frame: Any) -> dict[str, Any] | None:
    if frame.type is not WSMsgType.TEXT:
        return None
    try:
        message = json.loads(frame.data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
