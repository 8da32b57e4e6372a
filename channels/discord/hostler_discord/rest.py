"""The REST API over discord.py: its rate limits, the proxy of the sandbox, and what errors mean."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import urllib.request
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import certifi
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    TCPConnector,
)
from discord import DiscordException, DiscordServerError, File, HTTPException, LoginFailure, RateLimited
from discord.http import HTTPClient, Route

from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError
from hostler_sdk.channels.retry_after import wait_of

CALL_SECONDS = 50.0
"""Time for one call, with its files and the waits that Discord asks for."""
LONGEST_LIMIT_SECONDS = 30.0
"""Longer waits for a rate limit are the host's: the least that discord.py lets be set."""
BANNED_SECONDS = 60.0
"""The wait after a refusal that names none, as Cloudflare's."""
PIECE_BYTES = 256 * 1024
_CDN = ("cdn.discordapp.com", "media.discordapp.net")
_TOKEN = re.compile(r"[\w.-]{20,200}", re.ASCII)
_BROKEN = (KeyError, TypeError, ValueError, AttributeError)
"""What discord.py raises for answers that are none of Discord's."""


class Client(HTTPClient):
    """discord.py's client of the REST API, at the address of the settings and by the sandbox's proxy."""

    def __init__(self, base_url: str) -> None:
        """Build it in a running loop."""
        certificates = os.environ.get("SSL_CERT_FILE") or certifi.where()
        self._tls = ssl.create_default_context(cafile=certificates)
        super().__init__(
            asyncio.get_running_loop(),
            TCPConnector(limit=0, ssl=self._tls),
            max_ratelimit_timeout=LONGEST_LIMIT_SECONDS,
        )
        self._base = base_url

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[File] | None = None,
        form: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Make a request of discord.py, at the address of this client."""
        route.url = self._base + route.url.removeprefix(Route.BASE)
        self.proxy = proxy_of(route.url)
        try:
            return await super().request(route, files=files, form=form, **kwargs)
        except asyncio.CancelledError:
            self._global_over.set()  # else all others wait for what this one will not end
            raise

    async def ws_connect(self, url: str, *, compress: int = 0) -> ClientWebSocketResponse:
        """Connect to the gateway."""
        self.proxy = proxy_of(url)
        return await super().ws_connect(url, compress=compress)

    def session(self) -> ClientSession:
        """Return a session for files, which gets no token."""
        return ClientSession(connector=TCPConnector(ssl=self._tls), trust_env=True)


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    parts = urlsplit(url)
    if parts.hostname is None or urllib.request.proxy_bypass(parts.hostname):
        return None
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    return urllib.request.getproxies().get(scheme)


class Rest:
    """The calls of one bot. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, token: str, base_url: str) -> None:
        """Build it in a running loop. Raises SetupError if the token or the address has a wrong form."""
        if not base_url.startswith(("http://", "https://")):
            raise SetupError("`base-url` must begin with https:// or http://")
        if not _TOKEN.fullmatch(token):
            raise SetupError(
                "`token` is no token of a bot: the Developer Portal gives it under Bot, Reset Token"
            )
        self._token = token
        self.http = Client(base_url.rstrip("/") + "/v10")
        self._host = urlsplit(base_url).hostname
        self._files: ClientSession | None = None

    async def login(self) -> dict[str, Any]:
        """Begin, and return the bot's own user. Raises NotSent, UnclearError."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                me: Any = await self.http.static_login(self._token)
        except (DiscordException, ClientError, OSError, *_BROKEN) as error:
            raise self.meaning(error) from None
        return _object(me)

    async def close(self) -> None:
        """Close the connections."""
        if self._files is not None:
            await self._files.close()
        await self.http.close()
        await self.http.connector.close()

    def clean(self, text: Any) -> str:
        """Return a text without the token."""
        return str(text).replace(self._token, "[token]")[:1_000]

    async def call(
        self, verb: str, path: str, *, seconds: float = CALL_SECONDS, files: Sequence[File] = (), **more: Any
    ) -> Any:
        """Call `path`, whose `{names}` are in `more`, with `json`, `form`, `params` or `reason` for the rest.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        options = {key: more.pop(key) for key in ("json", "form", "params", "reason") if key in more}
        try:
            async with asyncio.timeout(seconds):
                return await self.http.request(Route(verb, path, **more), files=files or None, **options)
        except (DiscordException, ClientError, OSError, *_BROKEN) as error:
            raise self.meaning(error) from None

    async def message(self, verb: str, path: str, **more: Any) -> dict[str, Any]:
        """Call what answers with an object. Raises NotSent, UnclearError."""
        return _object(await self.call(verb, path, **more))

    def meaning(self, error: BaseException) -> NotSent | UnclearError:  # noqa: PLR0911 - a table
        """Return what an error means for what was to be done."""
        text = self.clean(error) or type(error).__name__
        match error:
            case RateLimited(retry_after=seconds):
                return NotSent("Discord limits the rate", retry_after=seconds)
            case LoginFailure() | HTTPException(status=401):
                return NotSent("Discord does not know this bot: check `token`")
            case HTTPException(status=429, response=response):
                wait = wait_of(response.headers.get("Retry-After"))
                wait = BANNED_SECONDS if wait is None else wait
                return NotSent("Discord limits the rate of this address", retry_after=wait)
            case DiscordServerError():
                return UnclearError(f"Discord has an error: {text}")
            case HTTPException():
                return NotSent(f"Discord: {text}", final=True)
            case ClientConnectorError() | ClientHttpProxyError():
                return NotSent(f"Discord cannot be reached: {text}")
            case TimeoutError():
                return UnclearError("Discord did not answer in time")
            case ClientError() | OSError():
                return UnclearError(f"the connection to Discord broke: {text}")
        return UnclearError(f"Discord answered in a form that is not known: {text}")

    async def download(self, url: str) -> AsyncIterator[bytes]:
        """Yield the content of a file. Raises FileUnavailableError."""
        host = urlsplit(url).hostname
        if host not in _CDN and (host is None or host != self._host):
            raise FileUnavailableError("its address is none of Discord's", final=True)
        if self._files is None:
            self._files = self.http.session()
        try:
            async with self._files.get(
                url, timeout=ClientTimeout(total=CALL_SECONDS), allow_redirects=False
            ) as response:
                if response.status != 200:
                    text = f"Discord answered {response.status} for the file"
                    raise FileUnavailableError(text, final=response.status in {401, 403, 404, 410})
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (ClientError, OSError) as error:
            raise FileUnavailableError(f"the file did not come whole: {self.clean(error)}") from None


def _object(answer: Any) -> dict[str, Any]:
    """Return an object of Discord. Raises UnclearError if it is none."""
    if not isinstance(answer, dict) or not answer.get("id"):
        raise UnclearError("what came was no answer of Discord: of a proxy, or an error page")
    return answer
