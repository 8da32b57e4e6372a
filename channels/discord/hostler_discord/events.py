"""Events of the gateway as events of channels.

What has a common type gets it; everything else is `platform.<name>`. `data.discord` is what Discord sent.
An event's id is Discord's id of what it is about, where it has one that is said once; else the session of
the gateway and the event's number in it, which are the same when Discord repeats it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from hostler_discord.gateway import Dispatch
from hostler_discord.messages import (
    WRITTEN,
    Drafted,
    files_of_interaction,
    kind_of,
    message_event,
    person_of,
    seconds_of,
    time_of,
)
from hostler_discord.places import Places
from hostler_sdk.channels import ChannelEvent, Person
from hostler_sdk.channels.malformed import MALFORMED, reason_of

MAX_OWN = 10_000
"""Messages of the bot that are remembered, to leave out what it does to them itself."""
_OF_THE_CONNECTION = {
    "READY",
    "RESUMED",
    "RATE_LIMITED",
    "GUILD_MEMBERS_CHUNK",
    "THREAD_LIST_SYNC",
    "PRESENCE_UPDATE",
    "TYPING_START",
    "CHANNEL_TOPIC_UPDATE",
    "VOICE_CHANNEL_STATUS_UPDATE",
}
"""What is about the connection, or was not asked for."""
_REACTIONS = ("MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE")
_MEMBERS = ("GUILD_MEMBER_ADD", "GUILD_MEMBER_REMOVE")
_COMPONENT, _MODAL, _COMMAND = 3, 5, 2
_BUTTON = 2


class Reader:
    """Turns events of the gateway into those of channels. `me`: the bot's own user.

    `heard` is called with the nonce and the id of each message of the bot.
    """

    def __init__(self, places: Places, me: dict[str, Any], heard: Callable[[str, str], None]) -> None:
        self._places = places
        self._heard = heard
        self.me = me
        self.expected: set[str] | None = None
        """Servers of the bot that Discord has not shown yet; None if another process knew them."""
        self.after = math.inf
        """A server that the bot joined later is new in any case."""
        self._own: OrderedDict[str, None] = OrderedDict()

    def sent(self, message_id: str) -> None:
        """Remember a message of the bot."""
        self._own[message_id] = None
        while len(self._own) > MAX_OWN:
            self._own.popitem(last=False)

    async def read(self, dispatch: Dispatch) -> list[Drafted]:
        """Return the events of one of the gateway; the bot's own doings give none. Raises ConnectionError.

        One that cannot be read is a `platform.` event of its name.
        """
        session = dispatch.session
        data = dispatch.data
        event_id = f"{session.session_id}:{session.seq}"
        try:
            self._learn(dispatch.name, data)
            drafts = [draft async for draft in self._drafts(dispatch.name, data)]
        except MALFORMED as error:
            why = reason_of(error)
            bare = ChannelEvent(event_type=_platform(dispatch.name), source_event_type=dispatch.name)
            drafts = [Drafted(msgspec.structs.replace(bare, data={"discord": data, "unreadable": why}))]
        return [_with_id(draft, event_id, number) for number, draft in enumerate(drafts)]

    def _learn(self, name: str, data: dict[str, Any]) -> None:
        match name:
            case "GUILD_CREATE" if not data.get("unavailable"):
                self._places.learn_guild(data)
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self._places.learn(data)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._places.forget(data["id"])
            case "THREAD_LIST_SYNC":
                for thread in data["threads"]:
                    self._places.learn(thread, data["guild_id"])
            case "INTERACTION_CREATE":
                self._places.learn(data.get("channel"), data.get("guild_id"))

    async def _drafts(self, name: str, data: dict[str, Any]) -> AsyncIterator[Drafted]:
        match name:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                if (draft := await self.message(name, data)) is not None:
                    yield draft
            case "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK":
                for event in await self._recalled(name, data):
                    yield Drafted(event)
            case "GUILD_CREATE" | "GUILD_DELETE":
                if (server := await self._guild(name, data)) is not None:
                    yield Drafted(server)
            case "INTERACTION_CREATE":
                yield Drafted(await self._interaction(name, data), list(files_of_interaction(data)))
            case _ if name not in _OF_THE_CONNECTION and not self._is_own(name, data):
                tell = {**dict.fromkeys(_REACTIONS, self._reaction), **dict.fromkeys(_MEMBERS, self._member)}
                yield Drafted(await tell.get(name, self._other)(name, data))

    def _is_own(self, name: str, data: dict[str, Any]) -> bool:
        """Whether the bot reacted itself, or came or went, which servers say of themselves."""
        if name in _REACTIONS:
            return str(data["user_id"]) == self._my_id
        return name in _MEMBERS and str(data["user"]["id"]) == self._my_id

    @property
    def _my_id(self) -> str:
        return str(self.me["id"])

    # -- messages ---------------------------------------------------------------------------------

    async def message(self, name: str, data: dict[str, Any]) -> Drafted | None:
        """Return a message, or its change, as an event; None for the bot's own."""
        author = data.get("author")
        if isinstance(author, dict) and str(author.get("id")) == self._my_id:
            self.sent(str(data["id"]))
            if data.get("nonce"):
                self._heard(str(data["nonce"]), str(data["id"]))
            return None
        chat = await self._places.chat_of(data["channel_id"], data.get("guild_id"))
        if chat.kind == "private" and isinstance(author, dict):
            title = author.get("global_name") or author.get("username")
            chat = msgspec.structs.replace(chat, title=title)
        kind = data.get("type", 0)
        if name == "MESSAGE_UPDATE":
            # without the time of an edit it is a preview, a pin or the like
            if kind in WRITTEN and data.get("edited_timestamp") and isinstance(author, dict):
                return message_event(data, "message.edited", name, chat, self.me)
            return Drafted(await self._other(name, data))
        if kind in WRITTEN:
            return message_event(data, "message.received", name, chat, self.me)
        event = await self._other(name, data)
        number = str(data["id"])
        return Drafted(
            msgspec.structs.replace(event, event_type=_platform(kind_of(data)), event_id=f"message:{number}")
        )

    async def _recalled(self, name: str, data: dict[str, Any]) -> list[ChannelEvent]:
        """Return the messages that were deleted; not the bot's own."""
        chat = await self._places.chat_of(data["channel_id"], data.get("guild_id"))
        ids = [str(id_) for id_ in (data["ids"] if name == "MESSAGE_DELETE_BULK" else [data["id"]])]
        return [
            ChannelEvent(
                event_type="message.recalled",
                event_id=f"delete:{id_}",
                source_event_type=name,
                chat=chat,
                message_id=id_,
                data={"discord": data},
            )
            for id_ in ids
            if id_ not in self._own
        ]

    async def _reaction(self, name: str, data: dict[str, Any]) -> ChannelEvent:
        member = data.get("member") or {}
        emoji = data["emoji"]
        custom = f"{emoji.get('name')}:{emoji['id']}" if emoji.get("id") else str(emoji["name"])
        person = person_of(member.get("user"), member) or Person(person_id=str(data["user_id"]))
        return ChannelEvent(
            event_type="message.reaction_added" if name.endswith("_ADD") else "message.reaction_removed",
            source_event_type=name,
            chat=await self._places.chat_of(data["channel_id"], data.get("guild_id")),
            person=person,
            message_id=str(data["message_id"]),
            data={"emoji": custom, "discord": data},
        )

    # -- presses and commands ---------------------------------------------------------------------

    async def _interaction(self, name: str, data: dict[str, Any]) -> ChannelEvent:
        """Return the press of a button, the choice in a menu, a form, or a command."""
        about, kind = data.get("data") or {}, data["type"]
        person = _interacting(data)
        chat = None
        if data.get("channel_id"):
            chat = await self._places.chat_of(data["channel_id"], data.get("guild_id"))
        message = data.get("message") or {}
        event = ChannelEvent(
            event_type=_platform(name),
            event_id=f"interaction:{data['id']}",
            source_event_type=name,
            event_time=seconds_of(int(data["id"])),
            chat=chat,
            person=person,
            message_id=str(message["id"]) if message.get("id") else None,
            data={"discord": data},
        )
        if kind == _COMMAND:
            command = {"name": about["name"], "options": about.get("options") or []}
            return msgspec.structs.replace(
                event,
                event_type="command.invoked",
                text=_command_text(about),
                addressed=["command"],
                data={"command": command, **event.data},
            )
        if kind not in {_COMPONENT, _MODAL}:
            return event
        told: dict[str, Any] = {"value": about["custom_id"]}
        if kind == _COMPONENT and about.get("component_type") != _BUTTON:
            told = {"value": next(iter(about.get("values") or []), ""), "values": about.get("values") or []}
            told["custom_id"] = about["custom_id"]
        elif kind == _MODAL:
            told["components"] = about.get("components") or []
        return msgspec.structs.replace(event, event_type="interaction.submitted", data={**told, **event.data})

    # -- members and servers ----------------------------------------------------------------------

    async def _member(self, name: str, data: dict[str, Any]) -> ChannelEvent:
        joined, guild_id = name == "GUILD_MEMBER_ADD", str(data["guild_id"])
        when = data.get("joined_at")
        return ChannelEvent(
            event_type="group.member_joined" if joined else "group.member_left",
            event_id=f"joined:{guild_id}:{data['user']['id']}:{when}" if joined and when else None,
            source_event_type=name,
            event_time=time_of(when) if joined else None,
            chat=await self._places.greeting_of(guild_id),
            person=person_of(data["user"], data),
            data={"guild_id": guild_id, "discord": data},
        )

    async def _guild(self, name: str, data: dict[str, Any]) -> ChannelEvent | None:
        """Return that the bot came into a server or left it; None for one only out of reach."""
        guild_id = str(data["id"])
        if name == "GUILD_DELETE" and data.get("unavailable"):
            if self.expected is not None:
                self.expected.add(guild_id)
            return None
        joined = time_of(data.get("joined_at"))
        was_expected = self.expected is None or guild_id in self.expected
        if self.expected is not None:
            self.expected.discard(guild_id)
        if name == "GUILD_CREATE":
            is_new = not was_expected or (joined or 0.0) > self.after
            if data.get("unavailable") or not is_new:
                return None
        about = {"guild_id": guild_id, "title": data.get("name")}
        return ChannelEvent(
            event_type="group.bot_invited" if name == "GUILD_CREATE" else "group.bot_removed",
            event_id=f"invited:{guild_id}:{data.get('joined_at')}" if name == "GUILD_CREATE" else None,
            source_event_type=name,
            event_time=joined,
            chat=await self._places.greeting_of(guild_id) if name == "GUILD_CREATE" else None,
            data={**about, "discord": {} if name == "GUILD_CREATE" else data},
        )

    # -- the rest ---------------------------------------------------------------------------------

    async def _other(self, name: str, data: dict[str, Any]) -> ChannelEvent:
        """Return what has no common type, with whom and where it says."""
        chat = None
        if data.get("channel_id"):
            chat = await self._places.chat_of(data["channel_id"], data.get("guild_id"))
        member = data.get("member") or {}
        person = person_of(data.get("author") or data.get("user") or member.get("user"), member)
        if person is None and data.get("user_id"):
            person = Person(person_id=str(data["user_id"]))
        number = data.get("message_id") or (data.get("id") if name.startswith("MESSAGE_") else None)
        return ChannelEvent(
            event_type=_platform(name),
            source_event_type=name,
            event_time=time_of(data.get("timestamp")),
            chat=chat,
            person=person,
            message_id=None if number is None else str(number),
            data={"discord": data},
        )


def _platform(name: str) -> str:
    return f"platform.{name.lower()}"


def _interacting(data: dict[str, Any]) -> Person | None:
    member = data.get("member") or {}
    return person_of(member.get("user") or data.get("user"), member)


def _command_text(about: dict[str, Any]) -> str:
    """Return a command as people read it: `/weather city:Paris`."""
    words, options = [f"/{about['name']}"], list(about.get("options") or [])
    while options:
        option = options.pop(0)
        if "value" in option:
            words.append(f"{option['name']}:{option['value']}")
        else:
            words.append(str(option["name"]))
            options = [*(option.get("options") or []), *options]
    return " ".join(words)


def _with_id(draft: Drafted, event_id: str, number: int) -> Drafted:
    if draft.event.event_id is not None:
        return draft
    id_ = f"{event_id}:{number}" if number else event_id
    return Drafted(msgspec.structs.replace(draft.event, event_id=id_[:512]), draft.files)
