"""The Messaging API over line-bot-sdk: one HTTP session, access tokens, files of people, and its errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
)
from linebot.v3.messaging.async_api_client import AsyncApiClient
from linebot.v3.messaging.configuration import Configuration
from linebot.v3.messaging.exceptions import ApiException

from hostler_line.errors import RefusedError, meaning, object_of
from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError

CALL_SECONDS = 30.0
"""Time for one call."""
CONNECT_SECONDS = 15.0
PIECE_BYTES = 256 * 1024
PREPARE_SECONDS = 90.0
"""How long LINE may prepare a file, as it does with long videos."""
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 5.0
"""Waits before LINE is asked again whether a file is prepared."""
EARLY_SECONDS = 60.0
"""A token is issued anew so long before it ends."""
_GONE = {400, 403, 404, 410}


class LineApi:
    """The API of one channel of LINE. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, *, token: str, channel_id: str, secret: str, base_url: str, data_url: str) -> None:
        """Raises SetupError if the settings cannot work."""
        for name, url in (("base-url", base_url), ("data-url", data_url)):
            if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
                raise SetupError(f"`{name}` must be an address that begins with https:// or http://")
        if not token.strip() and not channel_id.strip():
            raise SetupError("`token` is needed, or `channel-id`, for which tokens are issued")
        if not token.isascii() or not token.isprintable():
            raise SetupError("`token` must be a channel access token, of letters, digits and signs")
        self._token = token.strip()
        self._channel_id = "" if self._token else channel_id.strip()
        self._secret = secret
        self._base = base_url.rstrip("/")
        self._data = data_url.rstrip("/")
        self._ends = 0.0
        self._issuing = asyncio.Lock()
        self._client: AsyncApiClient | None = None

    def start(self) -> None:
        """Open the HTTP session. It takes the proxy and the certificates of its environment."""
        self._client = AsyncApiClient(Configuration(host=self._base, access_token=self._token))

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    # -- calls ------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        query: dict[str, Any] | None = None,
        retry_key: str | None = None,
    ) -> dict[str, Any]:
        """Make a call, and return LINE's answer.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        token = await self._authorize()
        try:
            return await self._call(method, path, body, query, retry_key)
        except RefusedError as error:
            if error.status != 401 or not self._channel_id:
                raise
        if self._token == token:
            self._ends = 0.0
        await self._authorize()
        return await self._call(method, path, body, query, retry_key)

    async def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        query: dict[str, Any] | None,
        retry_key: str | None,
    ) -> dict[str, Any]:
        headers = {} if retry_key is None else {"X-Line-Retry-Key": retry_key}
        return await self._ask(method, path, headers, body=body, query_params=list((query or {}).items()))

    async def _ask(self, method: str, path: str, headers: dict[str, str], **sent: Any) -> dict[str, Any]:
        assert self._client is not None, "start comes first"
        try:
            # the library's own methods refuse an answer that has one field more or less, after it was sent
            answer = await self._client.call_api(
                path,
                method,
                header_params={"Accept": "application/json", "Content-Type": "application/json"} | headers,
                response_types_map={},
                _host=self._base,
                _request_timeout=ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS),
                **sent,
            )
        except ApiException as error:
            raise meaning(error.status or 0, error.body, error.headers or {}) from None
        except (ClientConnectorError, ClientHttpProxyError, ConnectionTimeoutError) as error:
            raise NotSent(f"LINE cannot be reached: {_text(error)}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise UnclearError(f"the connection to LINE broke: {_text(error)}") from None
        except (LookupError, ValueError) as error:  # of the library, where the answer is no text
            raise UnclearError(f"what came was no answer of LINE: {_text(error)}") from None
        if answer.raw_data and not answer.raw_data.lstrip().startswith("{"):
            raise UnclearError("what came was no answer of LINE: of a proxy, or an error page")
        return object_of(answer.raw_data)

    async def _authorize(self) -> str:
        """Return the access token; one that ends soon is issued anew. Raises NotSent."""
        if not self._channel_id:
            return self._token
        async with self._issuing:
            if time.monotonic() >= self._ends:
                await self._issue()
            return self._token

    async def _issue(self) -> None:
        assert self._client is not None, "start comes first"
        form = {
            "grant_type": "client_credentials",
            "client_id": self._channel_id,
            "client_secret": self._secret,
        }
        self._client.default_headers.pop("Authorization", None)
        try:
            answer = await self._ask(
                "POST",
                "/oauth2/v3/token",
                {"Content-Type": "application/x-www-form-urlencoded"},
                post_params=list(form.items()),
            )
        except RefusedError as error:
            if error.status not in {400, 401}:
                raise
            text = "LINE issues no access token: check `channel-id` and `channel-secret`"
            raise RefusedError(text, 401) from None
        except UnclearError as error:
            raise NotSent(f"no access token was issued: {error}") from None
        token, seconds = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise NotSent("LINE issued no access token")
        self._token = token
        self._ends = time.monotonic() + (seconds if isinstance(seconds, int) else 900) - EARLY_SECONDS
        self._client.default_headers["Authorization"] = f"Bearer {token}"

    # -- files ------------------------------------------------------------------------------------

    async def download(self, message_id: str) -> AsyncIterator[bytes]:
        """Yield the content of a file that somebody sent. Raises FileUnavailableError.

        The library's own method holds all of it in memory, without bound.
        """
        path = f"/v2/bot/message/{message_id}/content"
        until, wait = time.monotonic() + PREPARE_SECONDS, FIRST_WAIT_SECONDS
        try:
            while True:
                async with await self._get(path) as answer:
                    if answer.status == 200:
                        async for piece in answer.content.iter_chunked(PIECE_BYTES):
                            yield piece
                        return
                    if answer.status == 401 and self._channel_id:
                        self._ends = 0.0  # the next try is made with a new token
                    _check_prepared(answer.status)
                await self._check_preparing(path)
                if time.monotonic() >= until:
                    text = f"LINE has not prepared it within {PREPARE_SECONDS:g} seconds"
                    raise FileUnavailableError(text, final=True)
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        except (NotSent, UnclearError) as error:  # of the access token
            raise FileUnavailableError(f"it cannot be fetched: {error}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise FileUnavailableError(f"it did not come whole: {_text(error)}") from None

    async def _check_preparing(self, path: str) -> None:
        """Raise FileUnavailableError if LINE says that it could not prepare a file."""
        async with await self._get(f"{path}/transcoding") as answer:
            told = object_of(await answer.text(errors="replace")) if answer.status == 200 else {}
        if told.get("status") == "failed":
            raise FileUnavailableError("LINE could not prepare it", final=True)

    async def _get(self, path: str) -> ClientResponse:
        await self._authorize()
        assert self._client is not None, "start comes first"
        session: ClientSession = self._client.rest_client.pool_manager
        return await session.get(
            self._data + path,
            headers=dict(self._client.default_headers),
            timeout=ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=CALL_SECONDS),
            allow_redirects=False,
        )


def _check_prepared(status: int) -> None:
    if status != 202:
        raise FileUnavailableError(f"LINE answered {status} for it", final=status in _GONE)


def _text(error: BaseException) -> str:
    """Return an error's text without an address."""
    return f"{type(error).__name__}: {error}".split("url=", 1)[0][:300]
