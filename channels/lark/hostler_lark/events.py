"""What Lark sends as events: messages, reactions, members and presses.

What has a common type gets it; everything else is `platform.<name>`. `data.lark` is what Lark sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hostler_lark.cards import VALUE
from hostler_lark.messages import Drafted, content_of, mentioned
from hostler_lark.names import Names, Place, fields_of, text_of
from hostler_protocol.channels import Addressed
from hostler_sdk.channels import ChannelEvent, Chat, Person

PRESS = "card.action.trigger"
MAX_ID = 512
_REACTIONS = {
    "im.message.reaction.created_v1": "message.reaction_added",
    "im.message.reaction.deleted_v1": "message.reaction_removed",
}
_MEMBERS = {
    "im.chat.member.user.added_v1": "group.member_joined",
    "im.chat.member.user.deleted_v1": "group.member_left",
}
_OF_BOT = {
    "im.chat.member.bot.added_v1": "group.bot_invited",
    "im.chat.member.bot.deleted_v1": "group.bot_removed",
}
_IDS = ("open_id", "union_id", "user_id")


@dataclass(frozen=True, slots=True)
class Me:
    """The bot's own account."""

    open_id: str
    app_id: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Envelope:
    """What all events of Lark say: those of version 2.0 in a header, those of 1.0 beside the event."""

    kind: str
    event_id: str | None
    time: float | None
    event: dict[str, Any]


def envelope_of(payload: dict[str, Any]) -> Envelope:
    """Return what an event says of itself."""
    header, event = fields_of(payload.get("header")), fields_of(payload.get("event"))
    if header:
        kind, event_id, time = header.get("event_type"), header.get("event_id"), header.get("create_time")
    else:
        kind, event_id, time = event.get("type"), payload.get("uuid"), payload.get("ts")
    known = text_of(kind) or text_of(payload.get("type")) or "event"
    return Envelope(known[:MAX_ID], _id(event_id), time_of(time), event)


def time_of(value: Any) -> float | None:
    """Return a time of Lark, which counts seconds, milliseconds or microseconds, in seconds."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not 0 < number < 1e17:
        return None
    return number / (1e6 if number > 1e14 else 1e3 if number > 1e11 else 1)


class Events:
    """Reads what Lark sends. `by_threads`: each message of a group begins a topic."""

    def __init__(self, me: Me, names: Names, *, by_threads: bool) -> None:
        self._me = me
        self._names = names
        self._by_threads = by_threads

    async def of(self, payload: dict[str, Any]) -> list[Drafted]:
        """Return the events that Lark tells of, in order; none for what the bot did itself."""
        told = envelope_of(payload)
        if told.kind == "im.message.receive_v1":
            draft = await self._message(told)
            return [] if draft is None else [draft]
        if told.kind == PRESS:
            return [Drafted(await self._press(told))]
        if told.kind in _REACTIONS:
            event = await self._reaction(told)
            return [] if event is None else [Drafted(event)]
        if told.kind == "application.bot.menu_v6":
            return [Drafted(await self._menu(told))]
        if told.kind in _MEMBERS:
            return [Drafted(event) async for event in self._members(told)]
        return [Drafted(await self._other(told))]

    # -- messages ---------------------------------------------------------------------------------

    async def _message(self, told: Envelope) -> Drafted | None:
        message, sender = fields_of(told.event.get("message")), fields_of(told.event.get("sender"))
        chat_id, message_id = _id(message.get("chat_id")), _id(message.get("message_id"))
        if chat_id is None or message_id is None or message.get("message_type") == "system":
            return Drafted(await self._other(told))
        person_id = _person_id(sender.get("sender_id")) or _id(sender.get("id"))
        if person_id in {self._me.open_id, self._me.app_id}:
            return None
        people = mentioned(message)
        names = {key: str(one.get("name") or "") for key, one in people.items() if one.get("name")}
        content = content_of(message, {"@_all": "all", **names})
        chat = await self._chat_of(message, chat_id, message_id)
        is_bot = sender.get("sender_type") not in {None, "user"}
        # within a topic all replies name its first message
        answers_all = bool(message.get("thread_id")) and message.get("parent_id") == message.get("root_id")
        event = ChannelEvent(
            event_type="message.received",
            event_id=f"message:{message_id}"[:MAX_ID],
            source_event_type=told.kind,
            event_time=time_of(message.get("create_time")) or told.time,
            chat=chat,
            person=None if person_id is None else await self._person(person_id, is_bot=is_bot),
            message_id=message_id,
            reply_to=None if answers_all else _id(message.get("parent_id")),
            text=content.text,
            addressed=[one async for one in self._addressed(message, chat, people)],
            data={"message_type": str(message.get("message_type")), "lark": told.event},
        )
        return Drafted(event, content.files)

    async def _chat_of(self, message: Mapping[str, Any], chat_id: str, message_id: str) -> Chat:
        """Return the chat of a message; its topic is named by the first message, to which is replied."""
        thread = None
        if message.get("thread_id"):
            thread = _id(message.get("root_id")) or message_id
        if message.get("chat_type") == "p2p":
            self._names.said_in(chat_id, "private")
            return Chat(chat_id=chat_id, kind="private", thread_id=thread)
        self._names.said_in(chat_id, "group")
        info = await self._names.chat(chat_id)
        if thread is None and self._by_threads:
            thread = _id(message.get("root_id")) or message_id
        return Chat(chat_id=chat_id, kind="group", title=info.title, thread_id=thread)

    async def _addressed(
        self, message: Mapping[str, Any], chat: Chat, people: Mapping[str, dict[str, Any]]
    ) -> AsyncIterator[Addressed]:
        if chat.kind == "private":
            yield "private"
        if any(self._me.open_id in _ids(one.get("id")) for one in people.values()):
            yield "mention"
        elif chat.kind == "group" and await self._answers(message, chat):
            yield "reply"

    async def _answers(self, message: Mapping[str, Any], chat: Chat) -> bool:
        """Whether a message answers one of the bot, or is said in a topic in which the bot has written."""
        parent, thread_id = _id(message.get("parent_id")), _id(message.get("thread_id"))
        if parent is None:
            return False
        if (await self._names.place(parent)).is_own:
            return True
        return chat.thread_id is not None and await self._names.took_part(chat.thread_id, thread_id)

    # -- presses ----------------------------------------------------------------------------------

    async def _press(self, told: Envelope) -> ChannelEvent:
        """Return the press of a button; what other cards send has its own name."""
        action, context = fields_of(told.event.get("action")), fields_of(told.event.get("context"))
        given = action.get("value")
        value = (
            given if isinstance(given, str) else fields_of(given).get(VALUE, fields_of(given).get("value"))
        )
        is_press = isinstance(value, str) and action.get("tag") == "button"
        message_id, chat_id = _id(context.get("open_message_id")), _id(context.get("open_chat_id"))
        operator = _person_id(told.event.get("operator"))
        # side by side: Lark waits three seconds for the answer
        place, chat, person = await asyncio.gather(
            self._place(message_id), self._chat(chat_id, None), self._maybe_person(operator)
        )
        if chat is not None and place.thread is not None:
            chat = msgspec.structs.replace(chat, thread_id=place.thread)
        return ChannelEvent(
            event_type="interaction.submitted" if is_press else "platform.card_action_trigger",
            event_id=told.event_id,
            source_event_type=told.kind,
            event_time=told.time,
            chat=chat,
            person=person,
            message_id=message_id,
            data={**({"value": value} if is_press else {}), "lark": told.event},
        )

    async def _menu(self, told: Envelope) -> ChannelEvent:
        """Return the choice of an entry of the bot's menu.

        Lark does not say in which chat: it names the person, to whom messages can be sent.
        """
        found = await self._other(told)
        name = text_of(told.event.get("event_key"))
        if name is None or found.person is None:
            return found
        return msgspec.structs.replace(
            found,
            event_type="command.invoked",
            chat=Chat(chat_id=found.person.person_id, kind="private"),
            addressed=["command"],
            data={"command": {"name": name, "arguments": ""}, **found.data},
        )

    # -- what happened ----------------------------------------------------------------------------

    async def _reaction(self, told: Envelope) -> ChannelEvent | None:
        message_id = _id(told.event.get("message_id"))
        person_id = _person_id(told.event.get("user_id")) or _id(told.event.get("app_id"))
        if message_id is None:
            return await self._other(told)
        if person_id in {self._me.open_id, self._me.app_id}:
            return None
        place = await self._names.place(message_id)
        is_bot = told.event.get("operator_type") == "app"
        emoji = fields_of(told.event.get("reaction_type")).get("emoji_type")
        return ChannelEvent(
            event_type=_REACTIONS[told.kind],
            event_id=told.event_id,
            source_event_type=told.kind,
            event_time=time_of(told.event.get("action_time")) or told.time,
            chat=await self._chat(place.chat_id, place.thread),
            person=None if person_id is None else await self._person(person_id, is_bot=is_bot),
            message_id=message_id,
            data={"emoji": str(emoji or ""), "lark": told.event},
        )

    async def _members(self, told: Envelope) -> AsyncIterator[ChannelEvent]:
        """Yield an event for each of those who came or left."""
        found = await self._other(told)
        by = found.person
        data = {"by": None if by is None else msgspec.to_builtins(by), **found.data}
        users = told.event.get("users")
        known = [fields_of(one) for one in (users if isinstance(users, list) else [])]
        people = [(one, _person_id(one.get("user_id"))) for one in known]
        if not any(id_ for _, id_ in people):
            yield found
        for number, (user, person_id) in enumerate((one, id_) for one, id_ in people if id_):
            event_id = found.event_id
            if number and event_id is not None:
                event_id = f"{event_id}:{number}"[:MAX_ID]
            person = Person(person_id=str(person_id), name=text_of(user.get("name")))
            yield msgspec.structs.replace(
                found, event_type=_MEMBERS[told.kind], event_id=event_id, person=person, data=data
            )

    async def _other(self, told: Envelope) -> ChannelEvent:
        """Return what has no common type, and what Lark takes back."""
        event = told.event
        if told.kind == "im.chat.updated_v1":
            self._names.forget(event.get("chat_id"))
        message = fields_of(event.get("message"))
        person_id = next(_people(event), None)
        name = re.sub(r"[^a-z0-9_]", "_", told.kind.lower())[:100].strip("_") or "event"
        event_type = _OF_BOT.get(told.kind, f"platform.{name}")
        if told.kind == "im.message.recalled_v1":
            event_type = "message.recalled"
        chat_id = _id(event.get("chat_id")) or _id(message.get("chat_id")) or _id(event.get("open_chat_id"))
        return ChannelEvent(
            event_type=event_type,
            event_id=told.event_id,
            source_event_type=told.kind,
            event_time=told.time,
            chat=await self._chat(chat_id, None),
            person=None if person_id is None else await self._person(person_id),
            message_id=_id(event.get("message_id")) or _id(message.get("message_id")),
            data={"lark": event},
        )

    async def _chat(self, chat_id: str | None, thread: str | None) -> Chat | None:
        if chat_id is None:
            return None
        info = await self._names.chat(chat_id)
        return Chat(chat_id=chat_id, kind=info.kind, title=info.title, thread_id=thread)

    async def _place(self, message_id: str | None) -> Place:
        return Place() if message_id is None else await self._names.place(message_id)

    async def _maybe_person(self, person_id: str | None) -> Person | None:
        return None if person_id is None else await self._person(person_id)

    async def _person(self, person_id: str, *, is_bot: bool = False) -> Person:
        if person_id == self._me.open_id:
            return Person(person_id=person_id, name=self._me.name, is_bot=True)
        name = None if is_bot else await self._names.person(person_id)
        return Person(person_id=person_id, name=name, is_bot=is_bot)


def _people(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield who did something, as events of different kinds say it."""
    for name in ("operator_id", "operator", "user_id", "sender", "reader"):
        told = fields_of(event.get(name))
        for inner in (told, *(fields_of(one) for one in told.values())):
            if found := _person_id(inner):
                yield found


def _ids(value: Any) -> set[Any]:
    """Return the ids by which somebody is known."""
    return {one for one in (value, *fields_of(value).values()) if isinstance(one, str)}


def _person_id(value: Any) -> str | None:
    """Return the id that somebody has for this app; of people whom it may not know that of their tenant."""
    told = fields_of(value)
    return next((found for name in _IDS if (found := _id(told.get(name)))), None) or _id(value)


def _id(value: Any) -> str | None:
    text = text_of(value)
    return None if text is None else text[:MAX_ID]
