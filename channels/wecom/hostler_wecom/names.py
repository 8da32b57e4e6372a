"""The names of members, each asked for once a day."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

from hostler_sdk.channels import NotSent, UnclearError
from hostler_wecom.errors import RefusedError
from hostler_wecom.web_api import WebApi

MAX_NAMES = 5_000
NAME_SECONDS = 86_400.0
REFUSED_SECONDS = 3_600.0
"""How long a name is not asked for again after WeCom refused it."""
LOOK_SECONDS = 10.0

logger = logging.getLogger(__name__)


class Names:
    """Looks names up. A name that cannot be had is None: a message does not wait for it."""

    def __init__(self, api: WebApi, *, ask: bool) -> None:
        self._api = api
        self._ask = ask
        self._known: OrderedDict[str, tuple[str | None, float]] = OrderedDict()

    async def of(self, user: str) -> str | None:
        """Return the name of a member."""
        if not self._ask:
            return None
        now = asyncio.get_running_loop().time()
        known = self._known.get(user)
        if known is not None and now < known[1]:
            return known[0]
        name, lasts = await self._look(user)
        self._known.pop(user, None)
        self._known[user] = (name, now + lasts)
        while len(self._known) > MAX_NAMES:
            self._known.popitem(last=False)
        return name

    async def _look(self, user: str) -> tuple[str | None, float]:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                answer = await self._api.call("user/get", query={"userid": user})
        except RefusedError as error:
            logger.info("the name of %s is not to be had: %s", user, error.message)
            return None, REFUSED_SECONDS
        except (NotSent, UnclearError, TimeoutError) as error:
            logger.info("the name of %s is not to be had now: %s", user, error)
            return None, 0.0
        name = answer.get("name")
        return (name if isinstance(name, str) and name else None), NAME_SECONDS
