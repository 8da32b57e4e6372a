"""The access token, which all calls of one application share: asked for once, and again before it expires."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_sdk.channels import NotSent

EARLY_SECONDS = 300.0
"""It is asked for so long before it expires; WeCom lets the old one live on for some minutes."""
SHORTEST_SECONDS = 10.0
DEFAULT_SECONDS = 7_200.0


class AccessToken:
    """A cached token. `ask` calls `gettoken`, and raises NotSent."""

    def __init__(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._ask = ask
        self._token: str | None = None
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def get(self) -> str:
        """Return a token that has not expired; many who need one ask for it once. Raises NotSent."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._token is None or now >= self._until:
                answer = await self._ask()
                token, seconds = answer.get("access_token"), answer.get("expires_in")
                if not isinstance(token, str) or not token:
                    raise NotSent("WeCom gave no access token")
                lasts = float(seconds) if isinstance(seconds, int | float) else DEFAULT_SECONDS
                self._token = token
                self._until = now + max(lasts - min(EARLY_SECONDS, lasts / 2), SHORTEST_SECONDS)
            return self._token

    def forget(self, token: str) -> None:
        """Forget a token that WeCom refused, unless another one was given since."""
        if self._token == token:
            self._token = None
