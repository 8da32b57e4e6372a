"""What the channel knows of rooms and of messages in them, for a while: it asks for what it does not."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from nio import Api

from hostler_matrix.home_server import HomeServer, Refused
from hostler_sdk.channels import NotSent, UnclearError

MAX_ROOMS = 500
MAX_MESSAGES = 5_000
MAX_NAMES = 300
"""Names of people, by room."""
SMALL = 20
"""In larger rooms who comes and leaves is not counted anew: none of them becomes private soon."""


@dataclass(slots=True)
class Room:
    """A room. `joined`: how many people are in it, the bot included; None: to be asked."""

    title: str | None = None
    is_encrypted: bool = False
    joined: int | None = None
    names: dict[str, str] = field(default_factory=dict)
    is_asked: bool = False
    """Whether title and encryption were asked for; later changes of them come as events."""


@dataclass(frozen=True, slots=True)
class Known:
    """A message, or a reaction to one (`target`, `emoji`)."""

    sender: str
    thread_id: str | None = None
    is_reaction: bool = False
    target: str | None = None
    emoji: str | None = None


def relation(content: dict[str, Any]) -> dict[str, Any]:
    """Return what an event says of its relation to another one."""
    relates = content.get("m.relates_to")
    return relates if isinstance(relates, dict) else {}


def text_in(value: Any, name: str) -> str | None:
    """Return a text of an object, if it has it."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


class Rooms:
    """The rooms of one account. Methods that ask raise NotSent or UnclearError if they get no answer."""

    def __init__(self, server: HomeServer) -> None:
        self._server = server
        self._rooms: OrderedDict[str, Room] = OrderedDict()
        self._messages: OrderedDict[str, Known] = OrderedDict()

    # -- rooms ------------------------------------------------------------------------------------

    def of(self, room_id: str) -> Room:
        """Return what is known of a room by now."""
        room = self._rooms.pop(room_id, None) or Room()
        self._rooms[room_id] = room
        while len(self._rooms) > MAX_ROOMS:
            self._rooms.popitem(last=False)
        return room

    def forget(self, room_id: str) -> None:
        """Forget a room that the bot has left."""
        self._rooms.pop(room_id, None)

    async def known(self, room_id: str, *, counted: bool = True) -> Room:
        """Return a room after asking what is not known of it. Raises Refused if the bot is not in it."""
        room = self.of(room_id)
        if not room.is_asked:
            title = await self._state(room_id, "m.room.name")
            encryption = await self._state(room_id, "m.room.encryption")
            room.title = text_in(title, "name")
            room.is_encrypted = room.is_encrypted or encryption is not None
            room.is_asked = True
        if counted and room.joined is None:
            await self._count(room_id, room)
        return room

    async def in_sync(self, room_id: str) -> Room:
        """Return a room in which something happened; one that is not shown any more is taken for a group."""
        try:
            return await self.known(room_id)
        except Refused as error:
            if not error.final:
                raise
        room = self.of(room_id)
        room.joined = room.joined or SMALL + 1
        return room

    async def _state(self, room_id: str, event_type: str) -> dict[str, Any] | None:
        try:
            return await self._server.call(Api.room_get_state_event("", room_id, event_type, ""))
        except Refused as error:
            if error.errcode == "M_NOT_FOUND":
                return None
            raise

    async def _count(self, room_id: str, room: Room) -> None:
        members = (await self._server.call(Api.joined_members("", room_id))).get("joined")
        if not isinstance(members, dict):
            raise UnclearError("the homeserver did not say who is in a room")
        room.joined = len(members)
        for person, member in members.items():
            self._name(room, person, text_in(member, "display_name"))

    @staticmethod
    def _name(room: Room, person: str, name: str | None) -> None:
        room.names.pop(person, None)
        if name is not None:
            room.names[person] = name
        while len(room.names) > MAX_NAMES:
            del room.names[next(iter(room.names))]

    def note_summary(self, room_id: str, summary: Any) -> None:
        """Take how many people are in a room from a `summary` of `/sync`."""
        count = summary.get("m.joined_member_count") if isinstance(summary, dict) else None
        if isinstance(count, int) and not isinstance(count, bool):
            self.of(room_id).joined = count

    def note_gap(self, room_id: str) -> None:
        """Note that people may have come and left unseen."""
        room = self.of(room_id)
        if (room.joined or 0) <= SMALL:
            room.joined = None

    def note_state(self, room_id: str, event: dict[str, Any], *, is_news: bool) -> None:
        """Take a state event. `is_news`: it happened now, and is not just told once more."""
        content = event.get("content")
        if not isinstance(content, dict) or "state_key" not in event:
            return
        room = self.of(room_id)
        match event.get("type"):
            case "m.room.member":
                if content.get("membership") == "join":
                    self._name(room, str(event["state_key"]), text_in(content, "displayname"))
                if is_news:
                    self.note_gap(room_id)
            case "m.room.name":
                room.title = text_in(content, "name")
            case "m.room.encryption":
                room.is_encrypted = True  # it cannot be turned off

    # -- messages ---------------------------------------------------------------------------------

    def note_message(self, event_id: str, event: dict[str, Any]) -> None:
        """Note who wrote an event, and where."""
        self._messages.pop(event_id, None)
        self._messages[event_id] = _known(event)
        while len(self._messages) > MAX_MESSAGES:
            self._messages.popitem(last=False)

    async def message(self, room_id: str, event_id: str) -> Known | None:
        """Return an event; None if the homeserver does not show it."""
        if event_id not in self._messages:
            try:
                self.note_message(event_id, await self.event(room_id, event_id))
            except NotSent as error:
                if error.final:
                    return None
                raise
        return self._messages[event_id]

    async def event(self, room_id: str, event_id: str) -> dict[str, Any]:
        """Return an event as the homeserver has it."""
        return await self._server.call(Api.room_get_event("", room_id, event_id))


def _known(event: dict[str, Any]) -> Known:
    content = event.get("content")
    relates = relation(content) if isinstance(content, dict) else {}
    other = text_in(relates, "event_id")
    kind = relates.get("rel_type")
    return Known(
        sender=str(event.get("sender")),
        thread_id=other if kind == "m.thread" else None,
        is_reaction=event.get("type") == "m.reaction",
        target=other if kind == "m.annotation" else None,
        emoji=text_in(relates, "key") if kind == "m.annotation" else None,
    )
