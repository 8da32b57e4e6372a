"""Fetch what was said while there was no connection, and Slack had given up to send it again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_sdk.channels import Channel, NotSent, UnclearError
from hostler_sdk.errors import HostError
from hostler_slack.messages import text_of, time_of
from hostler_slack.position import Place, Position
from hostler_slack.web_api import WebApi

MAX_AGE_SECONDS = 86_400
"""What is older is not answered any more, as with other platforms."""
MAX_PLACES = 50
"""Chats and threads that are looked at, those with the newest messages. Slack allows about 50 a minute."""
PAGE = 100
MAX_PAGES = 3
MAX_TRIES = 6
FIRST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 60.0

logger = logging.getLogger(__name__)


class CatchUp:
    """Looks at the chats of a position once it is `wanted`. `deliver` is given each message, oldest first."""

    def __init__(
        self,
        api: WebApi,
        channel: Channel,
        position: Position,
        deliver: Callable[[dict[str, Any], str], Awaitable[None]],
    ) -> None:
        self._api = api
        self._channel = channel
        self._position = position
        self._deliver = deliver
        self._wanted = asyncio.Event()
        self._places: list[tuple[Place, str]] = []

    def want(self) -> None:
        """Look at all chats soon. Until then the kept position stays at what is durable now."""
        self._places = self._position.hold()
        self._wanted.set()

    async def work(self) -> None:
        """Do what is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            places = self._places
            for place, _ in places[MAX_PLACES:]:
                self._position.caught(place)
            for place, since in places[:MAX_PLACES]:
                await self._look(place, since)
            if places:
                await self._keep()

    async def _keep(self) -> None:
        """Keep the position as it is now; if that fails it is kept with the next event."""
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:
            logger.warning("the position could not be kept: %s", error.message)

    async def _look(self, place: Place, since: str) -> None:
        oldest = max(since, f"{time.time() - MAX_AGE_SECONDS:.6f}")
        try:
            found = await self._fetched(place, oldest)
            for message in found:
                await self._deliver(message, place[0])
                latest = text_of(message.get("latest_reply"))
                if place[1] is None and latest is not None and latest > oldest:
                    for reply in await self._fetched((place[0], str(message["ts"])), oldest):
                        await self._deliver(reply, place[0])
        except (NotSent, UnclearError) as error:
            logger.warning("what was said in %s may be missing: %s", place[0], error)
            if not (isinstance(error, NotSent) and error.final):
                return  # it stays where it was, for the next time
        self._position.caught(place)

    async def _fetched(self, place: Place, oldest: str) -> list[dict[str, Any]]:
        """Return the messages after a time, oldest first. Raises NotSent, UnclearError."""
        chat_id, thread = place
        method = "conversations.history" if thread is None else "conversations.replies"
        cursor: str | None = None
        found: dict[str, dict[str, Any]] = {}
        for _ in range(MAX_PAGES):
            answer = await self._asked(
                method, channel=chat_id, ts=thread, oldest=oldest, limit=PAGE, cursor=cursor
            )
            messages = answer.get("messages")
            for message in messages if isinstance(messages, list) else []:
                ts = text_of(message.get("ts")) if isinstance(message, dict) else None
                if ts is not None and time_of(ts) is not None and ts > oldest:
                    found[ts] = message
            more = answer.get("response_metadata")
            cursor = text_of(more.get("next_cursor")) if isinstance(more, dict) else None
            if cursor is None:
                break
        else:
            logger.warning("more was said in %s than is fetched", chat_id)
        return [found[ts] for ts in sorted(found)]

    async def _asked(self, method: str, **params: Any) -> dict[str, Any]:
        wait = FIRST_WAIT_SECONDS
        for _ in range(MAX_TRIES - 1):
            try:
                return await self._api.call(method, **params)
            except NotSent as error:
                if error.final:
                    raise
                await asyncio.sleep(wait if error.retry_after is None else error.retry_after)
            except UnclearError:
                await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        return await self._api.call(method, **params)
