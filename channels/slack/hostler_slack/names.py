"""Names of people and chats, looked up once: Slack's events have ids only."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from hostler_sdk.channels import NotSent, UnclearError
from hostler_slack.web_api import WebApi

MAX_NAMES = 2_000
"""Of people, and of chats: the oldest are looked up again."""
LOOK_SECONDS = 3.0
"""An event does not wait longer for a name; it is without."""
MAX_MENTIONS = 20
"""People named in one text who are looked up."""
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Named:
    """What Slack says of a person or chat. `is_group`: a conversation of more than two people."""

    name: str | None = None
    is_bot: bool = False
    is_group: bool = True


class Names:
    """The names of one workspace, as far as the app may see them."""

    def __init__(self, api: WebApi) -> None:
        self._api = api
        self._people: OrderedDict[str, Named] = OrderedDict()
        self._chats: OrderedDict[str, Named] = OrderedDict()

    async def person(self, person_id: str) -> Named:
        """Return a person's name; without, if Slack does not give it."""
        return await self._known(self._people, person_id, "users.info", "user")

    async def chat(self, chat_id: str) -> Named:
        """Return a chat's name."""
        return await self._known(self._chats, chat_id, "conversations.info", "channel")

    async def of_text(self, text: str) -> dict[str, str]:
        """Return the names of the people that a text mentions, by their ids."""
        found = {}
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                for person_id in list(dict.fromkeys(_USER.findall(text)))[:MAX_MENTIONS]:
                    named = await self.person(person_id)
                    if named.name is not None:
                        found[person_id] = named.name
        except TimeoutError:
            logger.info("not all that a text mentions could be looked up in time")
        return found

    def forget(self, id_: Any) -> None:
        """Look a person or chat up again: Slack says that it changed."""
        if isinstance(id_, str):
            self._people.pop(id_, None)
            self._chats.pop(id_, None)

    async def _known(self, known: OrderedDict[str, Named], id_: str, method: str, field: str) -> Named:
        if id_ in known:
            known.move_to_end(id_)
            return known[id_]
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                answer = await self._api.call(method, **{field: id_})
        except NotSent as error:
            logger.info("%s of %s: %s", method, id_, error.message)
            if not error.final:
                return Named()
            named = Named()
        except (UnclearError, TimeoutError) as error:
            logger.info("%s of %s: %r", method, id_, error)
            return Named()
        else:
            told = answer.get(field)
            named = _named(told if isinstance(told, dict) else {})
        known[id_] = named
        while len(known) > MAX_NAMES:
            known.popitem(last=False)
        return named


def _named(told: dict[str, Any]) -> Named:
    profile = told.get("profile") if isinstance(told.get("profile"), dict) else {}
    assert isinstance(profile, dict)
    names = (profile.get("display_name"), profile.get("real_name"), told.get("real_name"), told.get("name"))
    name = next((one for one in names if isinstance(one, str) and one), None)
    return Named(name, told.get("is_bot") is True, told.get("is_im") is not True)
