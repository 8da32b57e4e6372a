"""What LINE sends as events of the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from hostler_line.messages import FileOf, addressed, files_of, text_of_message
from hostler_line.names import Names
from hostler_line.position import Position
from hostler_protocol.channels import ChatKind
from hostler_sdk.channels import ChannelEvent, Chat, Person
from hostler_sdk.channels.malformed import reason_of

_SOURCES: dict[str, tuple[str, ChatKind]] = {
    "user": ("userId", "private"),
    "group": ("groupId", "group"),
    "room": ("roomId", "group"),
}
_TYPES = {
    "message": "message.received",
    "messageEdited": "message.edited",
    "unsend": "message.recalled",
    "follow": "friend.added",
    "join": "group.bot_invited",
    "leave": "group.bot_removed",
    "memberJoined": "group.member_joined",
    "memberLeft": "group.member_left",
    "postback": "interaction.submitted",
}
_LISTS = {"memberJoined": ("joined", "members"), "memberLeft": ("left", "members")}


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


def fields_of(value: Any) -> dict[str, Any]:
    """Return an object of JSON; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str | None:
    """Return a text that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def id_of(value: Any) -> str | None:
    """Return an id of LINE, or None if it is none."""
    text = text_of(value)
    return text if text is not None and len(text) <= 512 else None


def chat_id_of_event(raw: dict[str, Any]) -> str | None:
    """Return the id of the chat where something happened."""
    source = fields_of(raw.get("source"))
    kind = _SOURCES.get(str(source.get("type")))
    return None if kind is None else id_of(source.get(kind[0]))


class Events:
    """Reads the events of one bot."""

    def __init__(self, names: Names, position: Position) -> None:
        self._names = names
        self._position = position

    async def of(self, raw: dict[str, Any]) -> list[Drafted]:
        """Return the events that one of LINE stands for: one for each member who joined or left."""
        kind = text_of(raw.get("type")) or "unknown"
        if raw.get("mode") == "standby":  # another module of the account answers
            return [Drafted(await self._event(raw, "platform.standby"))]
        event_type = _TYPES.get(kind, f"platform.{_name(kind)}")
        if kind in _LISTS:
            return [Drafted(one) async for one in self._members(raw, kind, event_type)]
        event = await self._event(raw, event_type)
        match kind:
            case "message" | "messageEdited":
                return [self._message(event, fields_of(raw.get("message")))]
            case "unsend":
                event = replace(event, message_id=id_of(fields_of(raw.get("unsend")).get("messageId")))
            case "postback":
                event = _press(event, fields_of(raw.get("postback")))
            case "follow":
                is_unblocked = fields_of(raw.get("follow")).get("isUnblocked") is True
                event = replace(event, data={**event.data, "is_unblocked": is_unblocked})
        return [Drafted(event)]

    async def _event(
        self, raw: dict[str, Any], event_type: str, *, person_id: str | None = None
    ) -> ChannelEvent:
        """Return an event with what all have. `person_id`: whom it is about, if not its source."""
        source = fields_of(raw.get("source"))
        chat_id = chat_id_of_event(raw)
        person_id = person_id or id_of(source.get("userId"))
        kind = text_of(raw.get("type"))
        has_left = kind in {"unfollow", "leave"}  # LINE tells nothing of them any more
        name, title = None, None
        if chat_id is not None and not has_left:
            if kind in {"follow", "join", "memberJoined"}:
                self._names.forget(chat_id, person_id)
            name, title = await asyncio.gather(
                _nothing() if person_id is None else self._names.person(chat_id, person_id),
                self._names.group(chat_id),
            )
        time_ms = raw.get("timestamp")
        return ChannelEvent(
            event_type=event_type,
            event_id=id_of(raw.get("webhookEventId")),
            source_event_type=str(raw.get("type"))[:100],
            event_time=time_ms / 1000
            if isinstance(time_ms, int) and not isinstance(time_ms, bool) and 0 <= time_ms < 2**50
            else None,
            chat=None
            if chat_id is None
            else Chat(chat_id=chat_id, kind=_SOURCES[str(source["type"])][1], title=title),
            person=None if person_id is None else Person(person_id=person_id, name=name),
            data={"line": raw},
        )

    def _message(self, event: ChannelEvent, message: dict[str, Any]) -> Drafted:
        quoted = id_of(message.get("quotedMessageId"))
        quotes_own = self._position.is_own(quoted)
        event = replace(
            event,
            message_id=id_of(message.get("id")),
            reply_to=quoted,
            text=text_of_message(message),
            addressed=list(addressed(message, is_private=_is_private(event), quotes_own=quotes_own)),
        )
        return Drafted(event, list(files_of(message)))

    async def _members(self, raw: dict[str, Any], kind: str, event_type: str) -> AsyncIterator[ChannelEvent]:
        outer, inner = _LISTS[kind]
        members = fields_of(raw.get(outer)).get(inner)
        found = [
            id_of(fields_of(one).get("userId")) for one in (members if isinstance(members, list) else [])
        ]
        for number, person_id in enumerate(found or [None]):
            event = await self._event(raw, event_type, person_id=person_id)
            if number and event.event_id is not None:
                event = replace(event, event_id=f"{event.event_id}:{number}")
            yield event


async def _nothing() -> None:
    return None


def unreadable(raw: Any, error: Exception | None) -> Drafted:
    """Return an event for what cannot be read."""
    fields = fields_of(raw)
    chat_id = chat_id_of_event(fields)
    return Drafted(
        ChannelEvent(
            event_type="platform.unreadable",
            event_id=id_of(fields.get("webhookEventId")),
            source_event_type=str(fields.get("type"))[:100],
            chat=None if chat_id is None else Chat(chat_id=chat_id, kind="group"),
            data={
                "unreadable": reason_of(error) if error else "no JSON object",
                "line": raw,
            },
        )
    )


def _is_private(event: ChannelEvent) -> bool:
    return event.chat is not None and event.chat.kind == "private"


def _press(event: ChannelEvent, postback: dict[str, Any]) -> ChannelEvent:
    params = {"params": postback["params"]} if isinstance(postback.get("params"), dict) else {}
    data = {**event.data, "value": str(postback.get("data") or ""), **params}
    return replace(event, data=data, addressed=["private"] if _is_private(event) else [])


def _name(kind: str) -> str:
    return "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in kind)[:64]
