"""What the events of Lark do not say, looked up once: names of people and chats, and where a message is."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from hostler_lark.api import Api
from hostler_sdk.channels import NotSent, UnclearError

MAX_KNOWN = 2_000
"""Of people, of chats, of messages, and of threads: the oldest are looked up again."""
LOOK_SECONDS = 2.0
"""An event does not wait longer for what is looked up; Lark waits three seconds for the answer to a press."""
THREAD_PAGE = 50

Found = TypeVar("Found")
ChatKind = Literal["private", "group"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChatInfo:
    """What Lark says of a chat."""

    kind: ChatKind = "group"
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is, and whether the bot wrote it. `thread`: the first message of its topic."""

    chat_id: str | None = None
    thread: str | None = None
    is_own: bool = False


class Names:
    """The names of one tenant, as far as the app may see them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._people: OrderedDict[str, str | None] = OrderedDict()
        self._chats: OrderedDict[str, ChatInfo] = OrderedDict()
        self._kinds: OrderedDict[str, ChatKind] = OrderedDict()
        """Of chats in which something was said: events of messages say it."""
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._threads: OrderedDict[str, bool] = OrderedDict()

    async def person(self, open_id: str) -> str | None:
        """Return a person's name; None if Lark does not give it."""

        async def look() -> str | None:
            query = {"user_id_type": "open_id"}
            path = "/open-apis/contact/v3/users/:user_id"
            user = fields_of((await self._api.data("GET", path, query, user_id=open_id)).get("user"))
            return text_of(user.get("name"))

        return await self._known(self._people, open_id, look, None)

    async def chat(self, chat_id: str) -> ChatInfo:
        """Return what a chat is."""
        if self._kinds.get(chat_id) == "private":
            return ChatInfo("private")

        async def look() -> ChatInfo:
            told = await self._api.data("GET", "/open-apis/im/v1/chats/:chat_id", chat_id=chat_id)
            is_private = told.get("chat_mode") == "p2p"
            return ChatInfo("private" if is_private else "group", text_of(told.get("name")))

        return await self._known(self._chats, chat_id, look, ChatInfo(self._kinds.get(chat_id, "group")))

    async def place(self, message_id: str) -> Place:
        """Return where a message is."""

        async def look() -> Place:
            path = "/open-apis/im/v1/messages/:message_id"
            items = (await self._api.data("GET", path, message_id=message_id)).get("items")
            told = fields_of(items[0]) if isinstance(items, list) and items else {}
            in_thread = text_of(told.get("thread_id")) is not None
            root = text_of(told.get("root_id")) or message_id
            is_own = fields_of(told.get("sender")).get("id") == self._api.app_id
            return Place(text_of(told.get("chat_id")), root if in_thread else None, is_own)

        return await self._known(self._places, message_id, look, Place())

    async def took_part(self, root: str, thread_id: str | None) -> bool:
        """Whether the bot has written in a topic. `root`: its first message."""
        if self._threads.get(root) or thread_id is None:
            return self._threads.get(root, False)

        async def look() -> bool:
            query = {
                "container_id_type": "thread",
                "container_id": thread_id,
                "sort_type": "ByCreateTimeDesc",
                "page_size": THREAD_PAGE,
            }
            items = (await self._api.data("GET", "/open-apis/im/v1/messages", query)).get("items")
            return any(
                fields_of(fields_of(one).get("sender")).get("id") == self._api.app_id
                for one in (items if isinstance(items, list) else [])
            )

        return await self._known(self._threads, root, look, False)

    def said_in(self, chat_id: str, kind: ChatKind) -> None:
        """Remember what kind of chat it is."""
        _keep(self._kinds, chat_id, kind)

    def wrote(self, message_id: str, chat_id: str | None, thread: str | None) -> None:
        """Remember a message of the bot, and the topic in which it is."""
        _keep(self._places, message_id, Place(chat_id, thread, is_own=True))
        if thread is not None:
            _keep(self._threads, thread, True)

    def forget(self, id_: Any) -> None:
        """Look a person or chat up again: Lark says that it changed."""
        if isinstance(id_, str):
            self._people.pop(id_, None)
            self._chats.pop(id_, None)

    async def _known(
        self,
        known: OrderedDict[str, Found],
        key: str,
        look: Callable[[], Awaitable[Found]],
        otherwise: Found,
    ) -> Found:
        """Return what is known, or what is found within a bound; what Lark refuses is not asked again."""
        if key in known:
            known.move_to_end(key)
            return known[key]
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                found = await look()
        except NotSent as error:
            logger.info("%s could not be looked up: %s", key, error.message)
            if not error.final:
                return otherwise
            found = otherwise
        except (UnclearError, TimeoutError) as error:
            logger.info("%s could not be looked up: %r", key, error)
            return otherwise
        _keep(known, key, found)
        return found


def text_of(value: Any) -> str | None:
    """Return a text that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def fields_of(value: Any) -> dict[str, Any]:
    """Return an object of JSON; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def _keep(known: OrderedDict[str, Found], key: str, value: Found) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > MAX_KNOWN:
        known.popitem(last=False)
