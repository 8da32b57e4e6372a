"""Messages of Slack: who wrote them, where, how they called the bot, and their files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hostler_protocol.channels import Addressed, ChatKind
from hostler_sdk.channels import ChannelEvent, Chat, Person
from hostler_slack.names import Names
from hostler_slack.texts import mentions, readable

CONTENT = {None, "bot_message", "file_share", "me_message", "thread_broadcast"}
"""Subtypes of messages that somebody wrote; the others tell what happened in the chat."""
_ELSEWHERE = {"external", "tombstone", "hidden_by_limit"}


@dataclass(frozen=True, slots=True)
class Me:
    """The bot's own account."""

    user_id: str
    bot_id: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message. `problem`: why it cannot be fetched. `look_up`: Slack tells more if asked."""

    file_id: str
    name: str
    mime_type: str | None
    size_bytes: int | None
    url: str | None
    problem: str | None = None
    look_up: bool = False


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


def text_of(value: Any) -> str | None:
    """Return a text that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def fields_of(value: Any) -> dict[str, Any]:
    """Return an object of JSON; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def time_of(value: Any) -> float | None:
    """Return the time that a `ts` of Slack holds."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def author_of(message: dict[str, Any]) -> str | None:
    """Return the id of who wrote a message."""
    return text_of(message.get("user")) or text_of(message.get("bot_id"))


def is_own(message: dict[str, Any], me: Me) -> bool:
    """Whether the bot itself wrote a message."""
    return message.get("user") == me.user_id or (me.bot_id is not None and message.get("bot_id") == me.bot_id)


class Reader:
    """Reads messages, with the names of people and chats. `by_threads`: each message begins a thread."""

    def __init__(self, me: Me, names: Names, *, by_threads: bool) -> None:
        self.me = me
        self.names = names
        self._by_threads = by_threads

    async def person(self, person_id: Any, *, bot: bool = False, name: Any = None) -> Person | None:
        """Return somebody by the id."""
        if text_of(person_id) is None:
            return None
        if person_id == self.me.user_id:
            return Person(person_id=person_id, name=self.me.name, is_bot=True)
        if person_id.startswith("B"):  # a bot without an account
            return Person(person_id=person_id, name=text_of(name), is_bot=True)
        named = await self.names.person(person_id)
        return Person(person_id=person_id, name=named.name or text_of(name), is_bot=bot or named.is_bot)

    async def chat(self, chat_id: Any, *, kind: Any = None, thread: Any = None) -> Chat | None:
        """Return a chat. `kind`: what Slack calls it in events of messages."""
        if text_of(chat_id) is None:
            return None
        if kind == "im" or chat_id.startswith("D"):
            return Chat(chat_id=chat_id, kind="private", thread_id=text_of(thread))
        named = await self.names.chat(chat_id)
        found: ChatKind = "group" if named.is_group else "private"
        title = named.name if found == "group" else None
        return Chat(chat_id=chat_id, kind=found, title=title, thread_id=text_of(thread))

    async def message(
        self, message: dict[str, Any], chat_id: str, *, event_type: str, kind: Any = None, took_part: bool
    ) -> Drafted:
        """Return a message as an event. `took_part`: the bot has written in its thread."""
        raw, ts = str(message.get("text") or ""), str(message["ts"])
        thread = text_of(message.get("thread_ts"))
        chat = await self.chat(chat_id, kind=kind, thread=thread)
        assert chat is not None
        if thread is None and self._by_threads and chat.kind == "group":
            chat = Chat(chat_id=chat_id, kind="group", title=chat.title, thread_id=ts)
        bot_name = message.get("username") or fields_of(message.get("bot_profile")).get("name")
        names = await self.names.of_text(raw)
        if self.me.name is not None:
            names[self.me.user_id] = self.me.name
        event = ChannelEvent(
            event_type=event_type,
            event_id=f"{event_type}:{chat_id}:{ts}"[:512],
            source_event_type=str(message.get("subtype") or message.get("type") or "message"),
            event_time=time_of(ts),
            chat=chat,
            person=await self.person(author_of(message), bot="bot_id" in message, name=bot_name),
            message_id=ts,
            reply_to=thread if thread != ts else None,
            text=readable(raw, names) or None,
            addressed=list(self._addressed(message, chat, raw, took_part=took_part)),
            data={"slack": message},
        )
        return Drafted(event, list(files_of(message)))

    def _addressed(
        self, message: dict[str, Any], chat: Chat, raw: str, *, took_part: bool
    ) -> Iterator[Addressed]:
        if chat.kind == "private":
            yield "private"
        if message.get("type") == "app_mention" or mentions(raw, self.me.user_id):
            yield "mention"
        in_thread = message.get("thread_ts") not in {None, message.get("ts")}
        if in_thread and (took_part or message.get("parent_user_id") == self.me.user_id):
            yield "reply"


def files_of(message: dict[str, Any]) -> Iterator[FileOf]:
    """Yield the files of a message."""
    files = message.get("files")
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict):
            yield file_of(file)


def file_of(file: dict[str, Any]) -> FileOf:
    """Return a file as Slack describes it."""
    size, mode = file.get("size"), file.get("mode")
    file_id = str(file.get("id") or "file")
    url = text_of(file.get("url_private_download")) or text_of(file.get("url_private"))
    problem = None
    if mode in _ELSEWHERE:
        problem = "it is kept outside of Slack" if mode == "external" else "Slack does not have it any more"
    return FileOf(
        file_id=file_id,
        name=(text_of(file.get("name")) or text_of(file.get("title")) or file_id)[:255],
        mime_type=text_of(file.get("mimetype")),
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        url=url,
        problem=problem,
        look_up=problem is None and (url is None or file.get("file_access") == "check_file_info"),
    )
