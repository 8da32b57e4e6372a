"""Names of people and groups, looked up and kept for a while: LINE's events have ids only."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any

from hostler_line.errors import RefusedError
from hostler_line.ids import is_id
from hostler_line.line_api import LineApi
from hostler_sdk.channels import NotSent, UnclearError

MAX_NAMES = 5_000
KEEP_SECONDS = 3_600.0
LOOK_SECONDS = 5.0
"""An event does not wait longer for a name; it is without."""

logger = logging.getLogger(__name__)


def profile_path(chat_id: str, person_id: str) -> str:
    """Return where the profile of a person in a chat is."""
    match chat_id[:1]:
        case "C":
            return f"/v2/bot/group/{chat_id}/member/{person_id}"
        case "R":
            return f"/v2/bot/room/{chat_id}/member/{person_id}"
    return f"/v2/bot/profile/{person_id}"


class Names:
    """The names that one bot may see."""

    def __init__(self, api: LineApi) -> None:
        self._api = api
        self._known: OrderedDict[str, tuple[float, str | None]] = OrderedDict()

    async def person(self, chat_id: str, person_id: str) -> str | None:
        """Return the name of a person in a chat; None if LINE does not give it."""
        if not is_id(person_id, "U") or not is_id(chat_id, "UCR"):
            return None
        return await self._name(profile_path(chat_id, person_id), "displayName")

    async def group(self, chat_id: str) -> str | None:
        """Return the name of a group. Multi-person chats have none."""
        if not is_id(chat_id, "C"):
            return None
        return await self._name(f"/v2/bot/group/{chat_id}/summary", "groupName")

    def forget(self, chat_id: str, person_id: str | None) -> None:
        """Look a chat and a person up anew: LINE gives the names of those who are friends or members."""
        self._known.pop(f"/v2/bot/group/{chat_id}/summary", None)
        if person_id is not None:
            self._known.pop(profile_path(chat_id, person_id), None)

    async def _name(self, path: str, field: str) -> str | None:
        kept = self._known.get(path)
        if kept is not None and time.monotonic() - kept[0] < KEEP_SECONDS:
            return kept[1]
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                answer = await self._api.call("GET", path)
        except RefusedError as error:
            logger.info("a name could not be looked up: %s", error.message)
            if not error.final:
                return kept[1] if kept is not None else None
            answer = {}
        except (NotSent, UnclearError, TimeoutError) as error:
            logger.info("a name could not be looked up: %r", error)
            return kept[1] if kept is not None else None
        name = _text(answer.get(field))
        self._known[path] = (time.monotonic(), name)
        self._known.move_to_end(path)
        while len(self._known) > MAX_NAMES:
            self._known.popitem(last=False)
        return name


def _text(value: Any) -> str | None:
    return value[:255] if isinstance(value, str) and value else None
