"""What happened in a room since the last sync: its timeline and, if that is cut, what is before it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nio import Api

from hostler_matrix.events import is_own_join
from hostler_matrix.home_server import HomeServer, Refused
from hostler_matrix.messages import Me
from hostler_matrix.rooms import text_in
from hostler_sdk.channels import ChannelEvent, Chat

PAGE = 100
MAX_PAGES = 10
"""Of earlier events of one room after a gap: what is beyond is told to be missed."""
_NONE = {"not_types": ["*"]}
_LAZY = {"lazy_load_members": True, "include_redundant_members": True}
"""Of members the homeserver sends those who have said something, each time: the channel keeps few."""
FILTER = {
    "account_data": _NONE,
    "presence": _NONE,
    "room": {
        "account_data": _NONE,
        "ephemeral": _NONE,
        "state": {**_LAZY, "types": ["m.room.member", "m.room.name", "m.room.encryption"]},
        "timeline": {"limit": PAGE},
    },
}
FIRST_FILTER = {
    "account_data": _NONE,
    "presence": _NONE,
    "room": {"account_data": _NONE, "ephemeral": _NONE, "state": _NONE, "timeline": {"limit": 1}},
}
"""At first only the position is wanted: what was said before is not answered."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """Events of a room in order. `missed`: there are earlier ones that were not read."""

    events: list[Any]
    is_limited: bool = False
    missed: ChannelEvent | None = None


def objects_in(value: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rooms of one kind in a sync."""
    found = value.get(name) if isinstance(value, dict) else None
    for room_id, room in (found if isinstance(found, dict) else {}).items():
        if isinstance(room, dict) and 1 < len(room_id) <= 255:
            yield room_id, room
        else:
            logger.error("a room of a sync is none: %.80r", room_id)


def listed(value: Any, *names: str) -> list[Any]:
    """Return a list within objects; an empty one if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


class Timelines:
    """The timelines of one sync, which begins at `before`."""

    def __init__(self, server: HomeServer, me: Me, before: str | None) -> None:
        self._server = server
        self._me = me
        self._before = before

    async def events(self, room_id: str, room: dict[str, Any]) -> Found:
        """Return the events of a room, if the bot has just come those after. Raises NotSent, UnclearError."""
        events = listed(room, "timeline", "events")
        timeline = room.get("timeline")
        is_limited = isinstance(timeline, dict) and timeline.get("limited") is True
        joins = [number for number, event in enumerate(events) if is_own_join(event, self._me)]
        if joins:
            return Found(events[joins[-1] + 1 :], is_limited)
        start = text_in(timeline, "prev_batch")
        if not is_limited or start is None:
            return Found(events, is_limited)
        try:
            earlier, is_whole = await self._earlier(room_id, start)
        except Refused as error:
            if not error.final:
                raise
            earlier, is_whole = [], False
        return Found(
            earlier + events, is_limited, None if is_whole else _missed(room_id, start, len(earlier))
        )

    async def _earlier(self, room_id: str, start: str) -> tuple[list[Any], bool]:
        """Return what is between the last sync and a token, in order, and whether that is all."""
        found: list[Any] = []
        for _ in range(MAX_PAGES):
            request = Api.room_messages("", room_id, start=start, end=self._before, direction="b", limit=PAGE)
            page = await self._server.call(request)
            chunk, following = listed(page, "chunk"), text_in(page, "end")
            for event in chunk:
                if is_own_join(event, self._me):
                    return found[::-1], True
                found.append(event)
            if not chunk or following is None or following == start:
                return found[::-1], True
            start = following
        return found[::-1], False


def _missed(room_id: str, start: str, count: int) -> ChannelEvent:
    """Return the event that says that more happened in a room than was read."""
    digest = hashlib.sha256(f"{room_id} {start}".encode()).hexdigest()[:32]
    return ChannelEvent(
        event_type="platform.messages_missed",
        event_id=f"missed:{digest}",
        chat=Chat(chat_id=room_id, kind="group"),
        data={"read": count, "before": start},
    )
