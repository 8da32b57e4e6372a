"""Events of rooms as events of the channel.

What has a common type gets it; everything else is `platform.<name>`, by Matrix' own name. `data.matrix` is
the event as the homeserver sent it, and its id is that of Matrix. The bot's own are none.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hostler_matrix.messages import (
    Drafted,
    Me,
    addressed,
    chat_of,
    command_of,
    files_of,
    person_of,
    reply_to,
    text_of,
)
from hostler_matrix.rooms import Room, Rooms, relation, text_in
from hostler_sdk.channels import ChannelEvent, Chat

MAX_ID_CHARS = 255
"""Of Matrix, in ids and types."""
_IN_ROOM = "join"
_OUT_OF_ROOM = {"leave", "ban"}
_MAX_TYPE = 120
_NOT_MESSAGES = {"m.key.verification.request", "m.server_notice"}
"""Kinds of `m.room.message` that nobody has written."""

Read = Callable[[ChannelEvent, dict[str, Any]], Awaitable[Drafted]]


def is_readable(event: Any) -> bool:
    """Whether an event has what each event has."""
    return (
        isinstance(event, dict)
        and isinstance(event.get("content"), dict)
        and all(
            0 < len(text_in(event, name) or "") <= MAX_ID_CHARS for name in ("event_id", "sender", "type")
        )
    )


def is_own_join(event: Any, me: Me) -> bool:
    """Whether with this event the bot came into its room: what is before it is not meant for it."""
    return (
        is_readable(event)
        and (event["type"], event.get("state_key")) == ("m.room.member", me.user_id)
        and event["content"].get("membership") == _IN_ROOM
        and membership_before(event) != _IN_ROOM
    )


def membership_before(event: dict[str, Any]) -> str | None:
    """Return what a member was before a change."""
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, dict) else None
    return text_in(before if before is not None else event.get("prev_content"), "membership")


def platform_type(name: str) -> str:
    """Return the type of an event that has no common one."""
    dotted = ".".join(part for part in re.sub(r"[^a-z0-9_.-]", "_", name.lower()).split(".") if part)
    return f"platform.{dotted or 'event'}"[:_MAX_TYPE].rstrip(".")


def unreadable(room_id: str, event: Any, why: str) -> Drafted:
    """Return an event that is not as events are."""
    name = text_in(event, "type") or "event"
    event_id = text_in(event, "event_id")
    found = ChannelEvent(
        event_type=platform_type(name),
        event_id=event_id if event_id is not None and len(event_id) <= MAX_ID_CHARS else None,
        source_event_type=name[:MAX_ID_CHARS],
        chat=Chat(chat_id=room_id, kind="group"),
        data={"matrix": event, "unreadable": why},
    )
    return Drafted(found)


class Events:
    """Reads the events of one account. Raises NotSent or UnclearError if it has to ask, in vain."""

    def __init__(self, rooms: Rooms, me: Me) -> None:
        self._rooms = rooms
        self._me = me
        self._by_type: dict[str, Read] = {
            "m.room.message": self._message,
            "m.sticker": self._message,
            "m.reaction": self._reaction,
            "m.room.redaction": self._redaction,
            "m.room.member": self._member,
        }

    async def read(self, room_id: str, event: Any, room: Room) -> Drafted | None:
        """Return what an event of a room is to the channel; None for the bot's own."""
        if not is_readable(event):
            return unreadable(room_id, event, "it has no id, sender, type or content")
        self._rooms.note_message(event["event_id"], event)
        if event["sender"] == self._me.user_id:
            return None
        sent = event.get("origin_server_ts")
        is_time = isinstance(sent, int | float) and not isinstance(sent, bool)
        base = ChannelEvent(
            event_type=platform_type(event["type"]),
            event_id=event["event_id"],
            source_event_type=event["type"],
            event_time=sent / 1000 if is_time else None,
            chat=chat_of(room_id, room),
            person=person_of(event["sender"], room),
            message_id=event["event_id"],
            data={"matrix": event},
        )
        read = self._by_type.get(event["type"])
        if read is None or _is_redacted(event):
            return Drafted(base)
        return await read(base, event)

    # -- messages ---------------------------------------------------------------------------------

    async def _message(self, base: ChannelEvent, event: dict[str, Any]) -> Drafted:
        content = event["content"]
        kind = "m.sticker" if event["type"] == "m.sticker" else text_in(content, "msgtype")
        if kind is None or kind in _NOT_MESSAGES:
            named = platform_type(kind or event["type"])
            return Drafted(msgspec.structs.replace(base, event_type=named))
        if relation(content).get("rel_type") == "m.replace":
            return await self._edited(base, content)
        relates = relation(content)
        thread_id = text_in(relates, "event_id") if relates.get("rel_type") == "m.thread" else None
        return await self._said(base, content, kind, "message.received", thread_id)

    async def _edited(self, base: ChannelEvent, content: dict[str, Any]) -> Drafted:
        """Return an edit; what replaces somebody else's message is none, as for all clients."""
        original, new = text_in(relation(content), "event_id"), content.get("m.new_content")
        known = None if original is None else await self._rooms.message(_room_of(base), original)
        author = None if base.person is None else base.person.person_id
        if original is None or not isinstance(new, dict) or known is None or known.sender != author:
            return Drafted(msgspec.structs.replace(base, event_type="platform.m.replace"))
        base = msgspec.structs.replace(base, message_id=original)
        kind = text_in(new, "msgtype") or "m.text"
        return await self._said(base, new, kind, "message.edited", known.thread_id)

    async def _said(
        self, base: ChannelEvent, content: dict[str, Any], kind: str, event_type: str, thread_id: str | None
    ) -> Drafted:
        chat, person = base.chat, base.person
        assert chat is not None
        assert person is not None
        other = reply_to(content)
        known = None if other is None else await self._rooms.message(chat.chat_id, other)
        text = text_of(content) if kind != "m.sticker" else text_in(content, "body")
        command = command_of(text or "", self._me)
        data = {"msgtype": kind, **base.data}
        if command is not None:
            data["command"] = {"name": command[0], "arguments": command[1]}
        if (place := text_in(content, "geo_uri")) is not None:
            data["geo_uri"] = place
        event = msgspec.structs.replace(
            base,
            event_type=event_type,
            source_event_type=base.source_event_type,
            chat=msgspec.structs.replace(chat, thread_id=thread_id),
            # a notice is how bots write: whoever answers it may begin what never ends
            person=msgspec.structs.replace(person, is_bot=kind == "m.notice"),
            reply_to=other,
            text=text,
            addressed=addressed(
                content,
                self._me,
                is_private=chat.kind == "private",
                is_command=command is not None,
                answers_me=known is not None and known.sender == self._me.user_id,
            ),
            data=data,
        )
        return Drafted(event, files_of(content, kind))

    # -- reactions, recalls -----------------------------------------------------------------------

    async def _reaction(self, base: ChannelEvent, event: dict[str, Any]) -> Drafted:
        relates = relation(event["content"])
        target, emoji = text_in(relates, "event_id"), text_in(relates, "key")
        if relates.get("rel_type") != "m.annotation" or target is None or emoji is None:
            return Drafted(base)
        return Drafted(
            msgspec.structs.replace(
                base,
                event_type="message.reaction_added",
                message_id=target,
                chat=await self._in_its_thread(base, target),
                data={"emoji": emoji, **base.data},
            )
        )

    async def _redaction(self, base: ChannelEvent, event: dict[str, Any]) -> Drafted:
        """Return a message that was taken back, or a reaction: Matrix calls both so."""
        target = text_in(event["content"], "redacts") or text_in(event, "redacts")
        if target is None:
            return Drafted(base)
        known = await self._rooms.message(_room_of(base), target)
        if known is not None and known.is_reaction:  # of one from before nothing is left but that it was one
            return Drafted(
                msgspec.structs.replace(
                    base,
                    event_type="message.reaction_removed",
                    message_id=known.target,
                    chat=await self._in_its_thread(base, known.target),
                    data={"emoji": known.emoji, "reaction_id": target, **base.data},
                )
            )
        chat = await self._in_its_thread(base, target)
        return Drafted(
            msgspec.structs.replace(base, event_type="message.recalled", message_id=target, chat=chat)
        )

    async def _in_its_thread(self, base: ChannelEvent, message_id: str | None) -> Chat:
        assert base.chat is not None
        known = None if message_id is None else await self._rooms.message(_room_of(base), message_id)
        return msgspec.structs.replace(base.chat, thread_id=None if known is None else known.thread_id)

    # -- members ----------------------------------------------------------------------------------

    async def _member(self, base: ChannelEvent, event: dict[str, Any]) -> Drafted:
        """Return who came or left; invitations, new names and the like have no common type."""
        member, now = text_in(event, "state_key"), text_in(event["content"], "membership")
        was = membership_before(event)
        base = msgspec.structs.replace(base, data={"was": was, "membership": now, **base.data})
        if member is None:
            return Drafted(base)
        if member == self._me.user_id:
            removed = now in _OUT_OF_ROOM and was not in _OUT_OF_ROOM
            return (
                Drafted(msgspec.structs.replace(base, event_type="group.bot_removed"))
                if removed
                else Drafted(base)
            )
        if now == _IN_ROOM and was != _IN_ROOM:
            event_type = "group.member_joined"
        elif now in _OUT_OF_ROOM and was == _IN_ROOM:
            event_type = "group.member_left"
        else:
            return Drafted(base)
        room = self._rooms.of(_room_of(base))
        by = None if base.person is None else msgspec.to_builtins(base.person)
        return Drafted(
            msgspec.structs.replace(
                base,
                event_type=event_type,
                person=person_of(member, room),
                data={"by": by, **base.data},
            )
        )


def _is_redacted(event: dict[str, Any]) -> bool:
    """Whether an event was taken back before it came: nothing is left of what it said."""
    unsigned = event.get("unsigned")
    return isinstance(unsigned, dict) and "redacted_because" in unsigned


def _room_of(base: ChannelEvent) -> str:
    assert base.chat is not None
    return base.chat.chat_id
