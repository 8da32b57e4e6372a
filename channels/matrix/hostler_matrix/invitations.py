"""Invitations to rooms: what they are as events, and accepting them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Any

from nio import Api

from hostler_matrix.home_server import HomeServer
from hostler_matrix.messages import Me
from hostler_matrix.position import Position
from hostler_matrix.rooms import text_in
from hostler_matrix.timeline import listed
from hostler_sdk.channels import ChannelEvent, Chat, NotSent, Person, UnclearError

JOIN_SECONDS = 20.0
"""Time for one; a homeserver that needs longer for a room of another one goes on by itself."""
MAX_AT_ONCE = 5
"""Between two syncs."""
FIRST_WAIT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 3_600.0

logger = logging.getLogger(__name__)


def invitation_event(room_id: str, invitation: dict[str, Any], me: Me, before: str | None) -> ChannelEvent:
    """Return an invitation as an event. Its id joins the room and the position of the sync: it has none."""
    state = [one for one in listed(invitation, "invite_state", "events") if isinstance(one, dict)]
    mine: dict[str, Any] = {}
    title = name = None
    for event in state:
        content = event.get("content")
        if event.get("type") == "m.room.member" and event.get("state_key") == me.user_id:
            mine = event
        elif event.get("type") == "m.room.name":
            title = text_in(content, "name")
    inviter = text_in(mine, "sender")
    for event in state:
        if event.get("type") == "m.room.member" and event.get("state_key") == inviter:
            name = text_in(event.get("content"), "displayname")
    digest = hashlib.sha256(f"{room_id} {inviter} {before}".encode()).hexdigest()[:32]
    content = mine.get("content")
    is_direct = isinstance(content, dict) and content.get("is_direct") is True
    return ChannelEvent(
        event_type="group.bot_invited",
        event_id=text_in(mine, "event_id") or f"invitation:{digest}",
        source_event_type="m.room.member",
        chat=Chat(chat_id=room_id, kind="private" if is_direct else "group", title=title),
        person=None if inviter is None else Person(person_id=inviter[:255], name=name),
        data={"is_direct": is_direct, "matrix": invitation},
    )


class Invitations:
    """Those that are to be accepted. One that cannot be now is tried again, later and later."""

    def __init__(self, server: HomeServer, position: Position) -> None:
        self._server = server
        self._position = position
        self._due: dict[str, tuple[float, float]] = {}
        """By room: when it is tried again, and the wait after that."""

    async def accept(self) -> None:
        """Accept those that are due."""
        now = asyncio.get_running_loop().time()
        due = [one for one in self._position.joins if self._due.get(one, (now, 0.0))[0] <= now]
        for room_id in due[:MAX_AT_ONCE]:
            if await self._is_settled(room_id):
                self._position.joins.remove(room_id)
                self._due.pop(room_id, None)
                continue
            wait = self._due.get(room_id, (0.0, FIRST_WAIT_SECONDS))[1]
            self._due[room_id] = now + wait, min(2 * wait, LONGEST_WAIT_SECONDS)

    async def _is_settled(self, room_id: str) -> bool:
        """Join a room; whether that is over, one way or the other."""
        try:
            await self._server.call(Api.join("", room_id), seconds=JOIN_SECONDS)
        except NotSent as error:
            logger.warning("the invitation to %s cannot be accepted: %s", room_id, error.message)
            return error.final
        except UnclearError as error:
            logger.warning("the invitation to %s may not be accepted yet: %s", room_id, error)
            return False
        return True
