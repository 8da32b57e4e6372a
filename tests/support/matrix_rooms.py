"""Rooms of a homeserver: one stream of events, with positions in it as `/sync` and `/messages` name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ME = "@helper:hs.example"
ADA = "@ada:hs.example"
BOB = "@bob:other.example"
DM = "!dm:hs.example"
GROUP = "!group:hs.example"
DATE = 1_764_000_000_000


@dataclass(slots=True)
class Room:
    """A room: its state, and who is in it."""

    room_id: str
    state: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def membership(self, user: str) -> str:
        """What somebody is in it."""
        member = self.state.get(("m.room.member", user))
        return "leave" if member is None else str(member["content"]["membership"])

    def joined(self) -> dict[str, dict[str, Any]]:
        """Who is in it."""
        return {
            key: event["content"]
            for (kind, key), event in self.state.items()
            if kind == "m.room.member" and event["content"]["membership"] == "join"
        }


@dataclass(slots=True)
class Stream:
    """Everything that happened, in order; a position is a number of events."""

    rooms: dict[str, Room] = field(default_factory=dict)
    events: list[tuple[str, Any]] = field(default_factory=list)
    invitations: dict[str, tuple[int, list[dict[str, Any]]]] = field(default_factory=dict)
    by_id: dict[str, tuple[str, Any]] = field(default_factory=dict)
    _number: int = 0

    def make(self, room_id: str, *people: str, name: str | None = None) -> None:
        """Make a room with people in it, before the bot looks."""
        self.rooms[room_id] = Room(room_id)
        for user in people:
            shown = user[1:].split(":")[0].title()
            self.add(room_id, "m.room.member", {"membership": "join", "displayname": shown}, user, user)
        if name is not None:
            self.add(room_id, "m.room.name", {"name": name}, people[-1], "")

    def add(
        self,
        room_id: str,
        kind: str,
        content: dict[str, Any],
        sender: str,
        state_key: str | None = None,
        **more: Any,
    ) -> str:
        """Add an event, and return its id."""
        self._number += 1
        event_id = f"$e{self._number}:hs"
        event = {
            "type": kind,
            "content": content,
            "sender": sender,
            "event_id": event_id,
            "origin_server_ts": DATE + self._number,
            **more,
        }
        if state_key is not None:
            state = self.rooms[room_id].state
            before = state.get((kind, state_key))
            event["state_key"] = state_key
            if before is not None:
                event["unsigned"] = {**event.get("unsigned", {}), "prev_content": before["content"]}
            state[kind, state_key] = event
        self.put(room_id, event)
        return event_id

    def put(self, room_id: str, event: Any) -> None:
        """Add an event as it is."""
        self.events.append((room_id, event))
        if isinstance(event, dict) and "event_id" in event:
            self.by_id[event["event_id"]] = room_id, event

    def invite(self, room_id: str, inviter: str, *, is_direct: bool = True) -> None:
        """Somebody invites the bot."""
        room = self.rooms.setdefault(room_id, Room(room_id))
        member = {"membership": "invite", "is_direct": is_direct}
        room.state["m.room.member", ME] = {"content": member}
        state = [
            {
                "type": "m.room.member",
                "state_key": inviter,
                "sender": inviter,
                "content": {"displayname": "Ada"},
            },
            {"type": "m.room.member", "state_key": ME, "sender": inviter, "content": member},
            {"type": "m.room.name", "state_key": "", "sender": inviter, "content": {"name": "Come in"}},
        ]
        self.events.append(("", None))
        self.invitations[room_id] = len(self.events), state

    def since(self, position: int, limit: int) -> dict[str, Any]:
        """Return `rooms` of a sync from a position."""
        found: dict[str, Any] = {"join": {}, "leave": {}, "invite": {}}
        for room_id, (at, state) in self.invitations.items():
            if at > position:
                found["invite"][room_id] = {"invite_state": {"events": state}}
        for room_id, room in self.rooms.items():
            places = [number for number, _ in self.of(room_id) if number >= position]
            membership = room.membership(ME)
            if not places or membership == "invite":
                continue
            shown = places[-limit:]
            events = [self.events[number][1] for number in shown]
            senders = {str(event.get("sender")) for event in events if isinstance(event, dict)}
            members = [room.state[key] for one in senders if (key := ("m.room.member", one)) in room.state]
            kind = "join" if membership == "join" else "leave"
            found[kind][room_id] = {
                "timeline": {
                    "events": events,
                    "limited": len(places) > limit,
                    "prev_batch": f"t{shown[0]}",
                },
                "state": {"events": members},
                "ephemeral": {"events": []},
                "account_data": {"events": []},
                "summary": {},
            }
        return found

    def of(self, room_id: str) -> Iterator[tuple[int, Any]]:
        """The events of a room with their places."""
        return ((number, event) for number, (room, event) in enumerate(self.events) if room == room_id)

    def page(self, room_id: str, start: int, end: int, limit: int) -> dict[str, Any]:
        """Return a page of `/messages`, backwards from a place to another one."""
        places = [number for number, _ in self.of(room_id) if end <= number < start]
        shown = places[-limit:] if limit else []
        page: dict[str, Any] = {
            "start": f"t{start}",
            "chunk": [self.events[number][1] for number in shown[::-1]],
        }
        if len(places) > len(shown):
            page["end"] = f"t{shown[0]}"
        return page
