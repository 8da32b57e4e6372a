"""Where messages are: channels and threads of servers, as the gateway tells them or Discord is asked."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hostler_discord.rest import Rest
from hostler_protocol.channels import ChatKind
from hostler_sdk.channels import Chat, NotSent, UnclearError

MAX_KNOWN = 10_000
"""Channels that are kept in memory; others are asked for."""
TRIES = 5
FIRST_WAIT_SECONDS = 1.0
_ANNOUNCEMENTS = 5
_THREADS = {10, 11, 12}
_PRIVATE = {1, 3}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Place:
    """A channel of Discord. `parent_id` is that of a thread."""

    kind: int
    title: str | None = None
    guild_id: str | None = None
    parent_id: str | None = None


async def patiently(work: Callable[[], Awaitable[_T]]) -> _T:
    """Ask Discord, again after a while where it fails for now.

    Raises NotSent if it refuses for good, ConnectionError if it does not answer in the end.
    """
    wait = FIRST_WAIT_SECONDS
    for last in [*[False] * (TRIES - 1), True]:
        try:
            return await work()
        except (NotSent, UnclearError) as error:
            if isinstance(error, NotSent) and error.final:
                raise
            if last:
                raise ConnectionError(str(error)) from None
            limit = error.retry_after if isinstance(error, NotSent) else None
        await asyncio.sleep(wait if limit is None else limit)
        wait *= 2
    raise ConnectionError("no try is allowed")


class Places:
    """The channels that a bot sees."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._known: OrderedDict[str, Place] = OrderedDict()
        self._greeting: OrderedDict[str, str | None] = OrderedDict()

    def learn(self, channel: Any, guild_id: Any = None) -> None:
        """Take what Discord says of a channel or thread."""
        if not isinstance(channel, dict) or not isinstance(channel.get("type"), int):
            return
        guild, parent, name = (
            channel.get("guild_id") or guild_id,
            channel.get("parent_id"),
            channel.get("name"),
        )
        place = Place(
            channel["type"],
            name if isinstance(name, str) else None,
            None if guild is None else str(guild),
            str(parent) if parent and channel["type"] in _THREADS else None,
        )
        _put(self._known, str(channel.get("id")), place)

    def learn_guild(self, guild: dict[str, Any]) -> None:
        """Take the channels and threads of a server."""
        for channel in [*(guild.get("channels") or []), *(guild.get("threads") or [])]:
            self.learn(channel, guild["id"])
        greeting = guild.get("system_channel_id")
        _put(self._greeting, str(guild["id"]), None if greeting is None else str(greeting))

    def forget(self, channel_id: Any) -> None:
        """Forget a channel that is gone."""
        self._known.pop(str(channel_id), None)

    async def place(self, channel_id: str) -> Place:
        """Return a channel. What Discord does not show is one of a server. Raises ConnectionError."""
        if channel_id not in self._known:
            try:
                path = "/channels/{channel_id}"
                found = await patiently(lambda: self._rest.message("GET", path, channel_id=channel_id))
                self.learn(found)
            except NotSent:  # the bot may be told of what it cannot see
                return Place(0)
        return self._known.get(channel_id, Place(0))

    async def chat_of(self, channel_id: Any, guild_id: Any) -> Chat:
        """Return the chat that a channel is; a thread is one of its parent. Raises ConnectionError."""
        id_ = str(channel_id)
        if not guild_id:
            return Chat(chat_id=id_, kind="private")
        place = await self.place(id_)
        if place.parent_id is None:
            return Chat(chat_id=id_, kind=_kind(place), title=place.title)
        parent = self._known.get(place.parent_id, place)
        return Chat(chat_id=place.parent_id, kind=_kind(parent), title=parent.title, thread_id=id_)

    async def greeting_of(self, guild_id: str) -> Chat | None:
        """Return the channel in which a server greets new members, if it has one. Raises ConnectionError."""
        if guild_id not in self._greeting:
            try:
                path = "/guilds/{guild_id}"
                self.learn_guild(await patiently(lambda: self._rest.message("GET", path, guild_id=guild_id)))
            except NotSent:
                return None
        channel_id = self._greeting[guild_id]
        return None if channel_id is None else await self.chat_of(channel_id, guild_id)

    async def guild_of(self, channel_id: str) -> str:
        """Return the server of a channel. Raises NotSent for a private chat, ConnectionError."""
        guild_id = (await self.place(channel_id)).guild_id
        if guild_id is None:
            raise NotSent("this chat is in no server of Discord", final=True)
        return guild_id


def _kind(place: Place) -> ChatKind:
    if place.kind in _PRIVATE:
        return "private"
    return "broadcast" if place.kind == _ANNOUNCEMENTS else "group"


def _put(table: OrderedDict[str, Any], key: str, value: Any) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > MAX_KNOWN:
        table.popitem(last=False)
