"""One open connection to Discord: receive the gateway's events in order, deliver them, answer presses."""

from __future__ import annotations

import asyncio
import math
import random
import time
from typing import TYPE_CHECKING, Any

import discord
import msgspec

from hostler_discord.actions import Actions
from hostler_discord.answers import Answers
from hostler_discord.catch_up import begin_after, channels_of, messages_after
from hostler_discord.events import Reader
from hostler_discord.gateway import Dispatch, Gateway, GatewayLostError
from hostler_discord.messages import Drafted, FileOf, person_of, seconds_of, snowflake_of
from hostler_discord.places import Places
from hostler_discord.position import Position
from hostler_discord.rest import Rest
from hostler_discord.sender import Sender
from hostler_sdk.channels import ChannelConnection, IngestEventReply, NotSent, Person, UnclearError
from hostler_sdk.channels.attachments import RemoteFile
from hostler_sdk.channels.delivery import Delivery, file_bounds

if TYPE_CHECKING:
    from hostler_discord.channel import Discord

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Waits before Discord is reached for again."""
ANEW_AFTER = 2
"""Failures after which a session is resumed at the common address of the gateway, and not at its own."""
NEW_SESSION_SECONDS = (1.0, 5.0)
"""A random wait before a new session, as Discord asks for."""
MAX_WAITING = 500
"""Events that are received and not delivered yet; then no more are received, and Discord keeps them."""
KEEP_EVERY = 100
"""Events that give none for the host, after which the position is kept nonetheless."""

_PRIVATE = "private"
"""The private chats, as a part of what is to be caught up with."""

Waiting = tuple[Dispatch, asyncio.Task[None] | None]


def intents_of(settings: dict[str, Any]) -> discord.Intents:
    """Return what the bot hears: all but presences, typing and voice, and what must be switched on first."""
    intents = discord.Intents.default()
    intents.dm_typing = intents.guild_typing = intents.voice_states = False
    intents.message_content = settings.get("message-content") is not False
    intents.members = settings.get("members") is True
    return intents


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender
    actions: Actions

    def __init__(self, channel: Discord) -> None:
        settings = channel.settings
        intents = intents_of(settings)
        self._channel = channel
        self._position = Position.of(channel.state, intents.value)
        base_url = str(settings.get("base-url") or "https://discord.com/api")
        self._rest = Rest(str(settings.get("token", "")).strip(), base_url)
        self._gateway = Gateway(self._rest, intents)
        self._places = Places(self._rest)
        self._delivery = Delivery(channel, file_bounds(settings))
        self._answers = Answers(self._rest)
        self.sender = Sender(
            self._rest,
            channel,
            previews=settings.get("link-previews") is True,
            mentions=settings.get("mentions") is True,
        )
        self._reader = Reader(self._places, {}, self.sender.heard)
        self.actions = Actions(self._rest, self._places, self.sender)
        self._session = self._position.session
        if self._position.last:
            self._reader.after = seconds_of(self._position.last)
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue(MAX_WAITING)
        self._heard = asyncio.Event()
        self._after = 0
        """The id after which is read what was missed."""
        self._receiving: asyncio.Task[None] | None = None
        self._presses: set[asyncio.Task[None]] = set()

    async def open(self) -> Person | None:
        """Log in, and connect to the gateway. Raises SetupError, ConnectionError."""
        await self._gateway.open()
        me = await self._rest.login()
        self._reader.me = me
        self.sender.my_id = str(me["id"])
        self._receiving = asyncio.create_task(self._receive(), name="gateway of Discord")
        heard = asyncio.create_task(self._heard.wait())
        try:
            await asyncio.wait([self._receiving, heard], return_when=asyncio.FIRST_COMPLETED)
        finally:
            heard.cancel()
        if self._receiving.done():
            self._receiving.result()
        return person_of(me)

    async def close(self) -> None:
        """Close the connections. The gateway keeps the session, and what comes meanwhile."""
        tasks = [task for task in (self._receiving, *self._presses) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._gateway.close()
        await self._rest.close()

    async def run(self) -> None:
        """Receive and deliver until cancelled. Raises SetupError, ConnectionError."""
        assert self._receiving is not None, "open comes first"
        delivering = asyncio.create_task(self._deliver_all(), name="events of Discord")
        try:
            await asyncio.wait([self._receiving, delivering], return_when=asyncio.FIRST_COMPLETED)
            for task in (self._receiving, delivering):
                if task.done():
                    task.result()
        finally:
            delivering.cancel()
            await asyncio.wait([delivering])

    # -- receiving --------------------------------------------------------------------------------

    async def _receive(self) -> None:
        """Keep a connection to the gateway, and queue what it says. Raises SetupError."""
        failures = 0
        while True:
            try:
                await self._gateway.connect(self._session, anew=failures >= ANEW_AFTER)
                while True:
                    for dispatch in await self._gateway.next():
                        if failures:
                            self._channel.connected()
                        failures, self._session = 0, dispatch.session
                        self._heard.set()
                        await self._waiting.put((dispatch, self._press(dispatch)))
            except GatewayLostError as lost:
                reason, wait = lost.reason, _wait(failures)
                if not lost.resume:
                    self._session, wait = None, max(wait, random.uniform(*NEW_SESSION_SECONDS))  # noqa: S311
            except NotSent as limit:
                reason, wait = limit.message, max(_wait(failures), limit.retry_after or FIRST_WAIT_SECONDS)
            except UnclearError as error:
                reason, wait = str(error), max(_wait(failures), FIRST_WAIT_SECONDS)
            failures += 1
            self._channel.connecting(reason)
            await self._gateway.drop()
            await asyncio.sleep(wait)

    # -- delivery ---------------------------------------------------------------------------------

    async def _deliver_all(self) -> None:
        """Deliver what is queued, one after the other; the position goes past each once it is durable."""
        without = 0
        while True:
            dispatch, press = await self._waiting.get()
            if press is not None:
                await press
                self._position.reach(dispatch.session)
                delivered = False
            else:
                delivered = await self._take(dispatch)
            without = 0 if delivered else without + 1
            if without >= KEEP_EVERY:
                await self._channel.keep(self._position.state())
                without = 0

    async def _take(self, dispatch: Dispatch) -> bool:
        """Deliver the events of one of the gateway; return whether the position was kept with them."""
        data = dispatch.data
        if dispatch.name == "READY":
            return await self._begin(dispatch)
        drafts = await self._reader.read(dispatch)
        for number, draft in enumerate(drafts, 1):
            if number == len(drafts):
                self._reach(dispatch)
            await self._give(draft, self._position.state())
        self._reach(dispatch)
        if dispatch.name in {"GUILD_CREATE", "GUILD_DELETE"} and not data.get("unavailable"):
            ended = await self._guild(dispatch)
        else:
            ended = dispatch.name == "RESUMED"
        if ended:
            await self._channel.keep(self._position.state())
        return ended or bool(drafts)

    async def _guild(self, dispatch: Dispatch) -> bool:
        """Read what was missed in a server that is shown; return whether nothing is missing any more."""
        guild_id = str(dispatch.data.get("id"))
        if dispatch.name == "GUILD_CREATE" and self._position.is_missing(guild_id):
            for channel_id in channels_of(dispatch.data, self._after):
                await self._catch_up(channel_id, guild_id)
        return self._position.catch_up(guild_id)

    def _reach(self, dispatch: Dispatch) -> None:
        self._position.reach(dispatch.session)
        if dispatch.name == "MESSAGE_CREATE":
            data = dispatch.data
            self._position.hear(data.get("id"), None if data.get("guild_id") else str(data.get("channel_id")))

    async def _begin(self, dispatch: Dispatch) -> bool:
        """Begin a session; what was missed is read in private chats now, in each server once it is shown."""
        guilds = {str(one["id"]) for one in dispatch.data.get("guilds") or []}
        last = self._position.last
        self._reader.expected = set(guilds)
        self._reader.after = seconds_of(last) if last else math.inf
        self._after = begin_after(last) if last else 0
        self._position.begin(snowflake_of(time.time()), {_PRIVATE, *guilds})
        self._position.reach(dispatch.session)
        if last:
            for channel_id in self._position.private:
                await self._catch_up(channel_id, None)
        self._position.catch_up(_PRIVATE)
        await self._channel.keep(self._position.state())
        return True

    async def _catch_up(self, channel_id: str, guild_id: str | None) -> None:
        async for message in messages_after(self._rest, channel_id, self._after):
            found = message if guild_id is None else {**message, "guild_id": guild_id}
            draft = await self._reader.message("MESSAGE_CREATE", found)
            if draft is not None:
                await self._give(draft, self._position.state())
            self._position.hear(message["id"], channel_id if guild_id is None else None)

    async def _give(self, draft: Drafted, state: Any) -> IngestEventReply:
        files = [self._remote(file) for file in draft.files]
        return await self._delivery.deliver(draft.event, files, state=state)

    def _remote(self, file: FileOf) -> RemoteFile:
        return RemoteFile(lambda: self._rest.download(file.url), file.name, file.mime_type, file.size_bytes)

    # -- presses ----------------------------------------------------------------------------------

    def _press(self, dispatch: Dispatch) -> asyncio.Task[None] | None:
        """Deliver a press at once, whatever waits before it: Discord waits three seconds for the answer."""
        if dispatch.name != "INTERACTION_CREATE":
            return None
        press = asyncio.create_task(self._deliver_press(dispatch), name="press on Discord")
        self._presses.add(press)
        press.add_done_callback(self._presses.discard)
        return press

    async def _deliver_press(self, dispatch: Dispatch) -> None:
        for draft in await self._reader.read(dispatch):
            # with the state that is kept: the position may be past events that are not durable yet
            reply = await self._give(draft, msgspec.UNSET)
            await self._answers.answer(dispatch.data, reply.notice)


def _wait(failures: int) -> float:
    """Return the wait before the next connection: none at first, then longer and longer."""
    return (
        0.0 if not failures else min(FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_WAIT_SECONDS)
    )
