"""What the methods of a homeserver do and answer, for one bot."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

from support.matrix_rooms import ADA, DM, ME, Stream

MAX_EVENT_BYTES = 65_536
_TAGS = {"p", "br", "strong", "em", "del", "code", "pre", "a", "blockquote", "ul", "ol", "li", "hr"}
_TAGS |= {"table", "tr", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6"}
CLIENT, ROOM = "/_matrix/client/v3", "/_matrix/client/v3/rooms/{room}"


class Refusal(Exception):
    """An error of a homeserver. `headers`: of the answer; other fields are in its body."""

    def __init__(
        self,
        status: int,
        errcode: str,
        error: str = "No",
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.body = {"errcode": errcode, "error": error, **more}


@dataclass(slots=True)
class Call:
    """One call of the bot. `name`: of the method, as in the table of routes below."""

    name: str
    params: dict[str, str]
    query: dict[str, str]
    body: Any
    content: bytes = b""
    content_type: str = ""


@dataclass
class Methods:
    """The rooms of a homeserver, its files, and what the bot may do with them."""

    stream: Stream = field(default_factory=Stream)
    files: dict[str, bytes] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    most: int = 100
    """Events in one timeline or page, whatever the client asks for."""
    _txns: dict[tuple[str, ...], str] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def happen(
        self,
        kind: str,
        content: dict[str, Any],
        *,
        room: str = DM,
        by: str = ADA,
        state_key: str | None = None,
        **more: Any,
    ) -> str:
        """Something happens in a room; return the id of the event."""
        event_id = self.stream.add(room, kind, content, by, state_key, **more)
        self._changed.set()
        return event_id

    def sent(self, room_id: str = DM) -> list[dict[str, Any]]:
        """The events that the bot has sent into a room."""
        return [
            event
            for _, event in self.stream.of(room_id)
            if event["sender"] == ME and "state_key" not in event
        ]

    def _whoami(self, _: Call) -> Any:
        return {"user_id": ME, "device_id": "HOSTLER", "is_guest": False}

    def _displayname(self, _: Call) -> Any:
        return {"displayname": "Helper"}

    def _in(self, call: Call) -> str:
        room_id = call.params["room"]
        room = self.stream.rooms.get(room_id)
        if room is None or room.membership(ME) != "join":
            raise Refusal(403, "M_FORBIDDEN", f"User {ME} not in room {room_id}")
        return room_id

    def _send(self, call: Call) -> Any:
        room_id, kind = self._in(call), call.params["type"]
        size = len(json.dumps(call.body, ensure_ascii=False, separators=(",", ":")).encode())
        if size + 500 > MAX_EVENT_BYTES:
            raise Refusal(413, "M_TOO_LARGE", "event too large")
        _check_html(call.body)
        key = "send", room_id, kind, call.params["txn"]
        if key not in self._txns:
            if kind == "m.reaction" and any(one["content"] == call.body for one in self.sent(room_id)):
                raise Refusal(400, "M_DUPLICATE_ANNOTATION", "Can't send same reaction twice")
            self._txns[key] = self.happen(kind, call.body, room=room_id, by=ME)
        return {"event_id": self._txns[key]}

    def _redact(self, call: Call) -> Any:
        room_id, target = self._in(call), call.params["event"]
        key = "redact", room_id, target, call.params["txn"]
        if key not in self._txns:
            if target not in self.stream.by_id:
                raise Refusal(404, "M_NOT_FOUND", "Event not found.")
            self.redacted(target)
            self._txns[key] = self.happen("m.room.redaction", {"redacts": target}, room=room_id, by=ME)
        return {"event_id": self._txns[key]}

    def redacted(self, event_id: str) -> None:
        """Take an event's content away, as a redaction does."""
        event = self.stream.by_id[event_id][1]
        event["content"] = {}
        event["unsigned"] = {"redacted_because": {"type": "m.room.redaction"}}

    def _get_state(self, call: Call) -> Any:
        room = self.stream.rooms[self._in(call)]
        found = room.state.get((call.params["type"], call.params.get("key", "")))
        if found is None:
            raise Refusal(404, "M_NOT_FOUND", "Event not found.")
        return found["content"]

    def _put_state(self, call: Call) -> Any:
        key = call.params.get("key", "")
        return {
            "event_id": self.happen(call.params["type"], call.body, room=self._in(call), by=ME, state_key=key)
        }

    def _joined_members(self, call: Call) -> Any:
        joined = self.stream.rooms[self._in(call)].joined()
        return {
            "joined": {user: {"display_name": content.get("displayname")} for user, content in joined.items()}
        }

    def _messages(self, call: Call) -> Any:
        assert call.query["dir"] == "b"
        start, end = call.query.get("from", f"t{len(self.stream.events)}"), call.query.get("to", "s0")
        return self.stream.page(
            self._in(call), int(start[1:]), int(end[1:]), min(int(call.query["limit"]), self.most)
        )

    def _event(self, call: Call) -> Any:
        room_id, event = self.stream.by_id.get(call.params["event"], ("", None))
        if event is None or room_id != self._in(call):
            raise Refusal(404, "M_NOT_FOUND", "Event not found.")
        return event

    def _relations(self, call: Call) -> Any:
        target = call.params["event"]
        found = [
            event
            for _, event in self.stream.of(self._in(call))
            if event["content"].get("m.relates_to", {}).get("event_id") == target
        ]
        return {"chunk": found[::-1]}

    def _join(self, call: Call) -> Any:
        room_id = call.params["room"]
        room = self.stream.rooms.get(room_id)
        if room is None or room.membership(ME) not in {"invite", "join"}:
            raise Refusal(403, "M_FORBIDDEN", "You are not invited to this room.")
        if room.membership(ME) == "invite":
            self.stream.invitations.pop(room_id, None)
            if room.membership(ADA) != "join":
                self.stream.add(
                    room_id, "m.room.member", {"membership": "join", "displayname": "Ada"}, ADA, ADA
                )
            self.happen("m.room.member", {"membership": "join"}, room=room_id, by=ME, state_key=ME)
        return {"room_id": room_id}

    def _leave(self, call: Call) -> Any:
        self.happen("m.room.member", {"membership": "leave"}, room=self._in(call), by=ME, state_key=ME)
        return {}

    def _kick(self, call: Call) -> Any:
        return self._remove(call, "leave")

    def _ban(self, call: Call) -> Any:
        return self._remove(call, "ban")

    def _remove(self, call: Call, membership: str) -> Any:
        content = {
            "membership": membership,
            **({"reason": call.body["reason"]} if "reason" in call.body else {}),
        }
        self.happen("m.room.member", content, room=self._in(call), by=ME, state_key=call.body["user_id"])
        return {}

    def _typing(self, call: Call) -> Any:
        self._in(call)
        return {}

    def _alias(self, call: Call) -> Any:
        found = self.aliases.get(call.params["alias"])
        if found is None:
            raise Refusal(404, "M_NOT_FOUND", "Room alias not found")
        return {"room_id": found, "servers": ["hs.example"]}

    def _upload(self, call: Call) -> Any:
        media_id = f"up{len(self.files)}"
        self.files[media_id] = call.content
        return {"content_uri": f"mxc://hs.example/{media_id}"}

    def _unknown(self, call: Call) -> Any:
        raise Refusal(404, "M_UNRECOGNIZED", "Unrecognized request")


def _check_html(body: dict[str, Any]) -> None:
    """Assert that clients show what is sent: they take no other tags."""
    for content in (body, body.get("m.new_content", {})):
        assert ("formatted_body" in content) == ("format" in content)
        tags = set(re.findall(r"</?([a-z0-9]+)", content.get("formatted_body", "")))
        assert tags <= _TAGS, tags


ROUTES = (
    ("GET", f"{CLIENT}/account/whoami", "whoami"),
    ("GET", f"{CLIENT}/profile/{{user}}/displayname", "displayname"),
    ("GET", f"{CLIENT}/sync", "sync"),
    ("PUT", f"{ROOM}/send/{{type}}/{{txn}}", "send"),
    ("PUT", f"{ROOM}/redact/{{event}}/{{txn}}", "redact"),
    ("GET", f"{ROOM}/state/{{type}}", "get_state"),
    ("GET", f"{ROOM}/state/{{type}}/{{key}}", "get_state"),
    ("PUT", f"{ROOM}/state/{{type}}", "put_state"),
    ("PUT", f"{ROOM}/state/{{type}}/{{key}}", "put_state"),
    ("GET", f"{ROOM}/joined_members", "joined_members"),
    ("GET", f"{ROOM}/messages", "messages"),
    ("GET", f"{ROOM}/event/{{event}}", "event"),
    ("GET", "/_matrix/client/v1/rooms/{room}/relations/{event}", "relations"),
    ("POST", f"{CLIENT}/join/{{room}}", "join"),
    ("POST", f"{ROOM}/leave", "leave"),
    ("POST", f"{ROOM}/kick", "kick"),
    ("POST", f"{ROOM}/ban", "ban"),
    ("PUT", f"{ROOM}/typing/{{user}}", "typing"),
    ("GET", f"{CLIENT}/directory/room/{{alias}}", "alias"),
    ("POST", "/_matrix/media/v3/upload", "upload"),
    ("GET", "/_matrix/client/v1/media/download/{server}/{media}", "download"),
    ("GET", "/_matrix/media/v3/download/{server}/{media}", "old_download"),
)
