"""The Web API over slack-sdk: one HTTP session, no repeats of its own, and what errors mean."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    ClientWSTimeout,
    TCPConnector,
)
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError
from hostler_sdk.channels.retry_after import wait_of

CALL_SECONDS = 50.0
"""Time for one call, with its files."""
CONNECT_SECONDS = 20.0
HEARTBEAT_SECONDS = 15.0
"""Between pings to Slack; a connection that answers none for half as long is lost."""
MAX_FRAME_BYTES = 4 * 1024 * 1024
"""Of a socket; Slack's events have some KiB."""
PIECE_BYTES = 256 * 1024
DEFAULT_RETRY_SECONDS = 30.0
"""Where Slack limits the rate and does not say for how long."""

_LIMITED = {"ratelimited", "rate_limited", "message_limit_exceeded"}
_UNCLEAR = {"fatal_error", "internal_error", "service_unavailable", "request_timeout"}
"""Slack says of these that some of the call may have been carried out."""
_NO_TOKEN = {
    "account_inactive",
    "invalid_auth",
    "not_allowed_token_type",
    "not_authed",
    "token_expired",
    "token_revoked",
}


class RefusedError(NotSent):
    """Slack refused a call with an error code of its own."""

    def __init__(
        self, message: str, code: str, *, final: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, final=final, retry_after=retry_after)
        self.code = code


class WebApi:
    """The methods of one app. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, token: str, base_url: str) -> None:
        """Raises SetupError if the token or the address has a wrong form."""
        if not base_url.startswith(("http://", "https://")):
            raise SetupError("`base-url` must begin with https:// or http://, like https://slack.com/api/")
        if not token.startswith("xoxb-"):
            raise SetupError("`token` must be the bot token of the app, which begins with xoxb-")
        self._token = token
        self._home = urlsplit(base_url)
        self._ssl = ssl.create_default_context()
        self._session: ClientSession | None = None
        self._base_url = base_url
        self._client: AsyncWebClient | None = None

    def start(self) -> None:
        """Open the HTTP session. It takes the proxy and the certificates of its environment."""
        connector = TCPConnector(ssl=self._ssl, limit=40)
        timeout = ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        self._session = ClientSession(connector=connector, timeout=timeout, trust_env=True)
        self._client = AsyncWebClient(
            token=self._token,
            base_url=self._base_url,
            ssl=self._ssl,
            session=self._session,
            retry_handlers=[],  # the library's own sends again what may have been sent
        )
        self._client.proxy = None  # the session knows it, and for which hosts there is none

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    # -- calls ------------------------------------------------------------------------------------

    async def call(self, method: str, *, app_token: str | None = None, **params: Any) -> dict[str, Any]:
        """Call a method, and return Slack's answer; parameters that are None are left out.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        assert self._client is not None, "start comes first"
        given = {name: _parameter(value) for name, value in params.items() if value is not None}
        # the library sets the header of the bot's token itself, unless the parameters have another one
        token = {} if app_token is None else {"token": app_token}
        try:
            if app_token is None:
                answer = await self._client.api_call(method, data=given)
            else:
                answer = await self._client.api_call(method, params=token | given)
        except SlackApiError as error:
            raise _meaning(method, error) from None  # its chain may hold a token
        except (ClientConnectorError, ClientHttpProxyError) as error:
            raise NotSent(f"Slack cannot be reached: {_text(error)}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise UnclearError(f"the connection to Slack broke: {_text(error)}") from None
        except (SlackClientError, AttributeError, ValueError):
            # of the library where an answer is no JSON object
            raise UnclearError("what came was no answer of Slack: of a proxy, or an error page") from None
        data = answer.data
        return data if isinstance(data, dict) else {}

    async def upload(self, url: str, content: bytes) -> None:
        """Send the content of a file to the address that Slack gave for it. Raises NotSent."""
        if not self.is_of_slack(url):
            raise NotSent("Slack gave an address outside of Slack for a file", final=True)
        assert self._session is not None, "start comes first"
        try:
            async with self._session.post(url, data=content) as answer:
                status = answer.status
        except (ClientError, TimeoutError, OSError) as error:
            # nobody sees a file before it is shared: it is uploaded anew
            raise NotSent(f"a file could not be uploaded: {_text(error)}") from None
        if status != 200:
            raise NotSent(f"a file could not be uploaded: Slack answered {status}")

    async def connect(self, url: str) -> ClientWebSocketResponse:
        """Open a socket at the address that Slack gave. Raises NotSent."""
        if not url.startswith(("wss://", "ws://")) or (
            self._home.scheme == "https" and not url.startswith("wss://")
        ):
            raise NotSent("the address that Slack gave for a socket is none: wss:// is expected")
        assert self._session is not None, "start comes first"
        try:
            return await self._session.ws_connect(
                url,
                heartbeat=HEARTBEAT_SECONDS,
                max_msg_size=MAX_FRAME_BYTES,
                proxy=_proxy_for(url),
                ssl=self._ssl,
                timeout=ClientWSTimeout(ws_close=1.0),
            )
        except (ClientError, TimeoutError, OSError) as error:
            raise NotSent(f"the socket could not be opened: {_text(error)}") from None

    # -- files ------------------------------------------------------------------------------------

    def is_of_slack(self, url: str) -> bool:
        """Whether an address is the Web API's host or one below it: others never get the token."""
        there, home = urlsplit(url), self._home
        host, own = there.hostname or "", home.hostname or ""
        return there.scheme in {home.scheme, "https"} and (host == own or host.endswith(f".{own}"))

    async def download(self, url: str, *, may_be_html: bool) -> AsyncIterator[bytes]:
        """Yield the content of a file. Raises FileUnavailableError."""
        if not self.is_of_slack(url):
            raise FileUnavailableError("it is kept outside of Slack", final=True)
        assert self._session is not None, "start comes first"
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                if answer.status in range(300, 400) or (
                    answer.status == 200 and answer.content_type == "text/html" and not may_be_html
                ):
                    text = "Slack asks to sign in for it: the app needs the scope files:read"
                    raise FileUnavailableError(text, final=True)
                if answer.status != 200:
                    text = f"Slack answered {answer.status} for the file"
                    raise FileUnavailableError(text, final=answer.status in {400, 403, 404, 410})
                async for piece in answer.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (ClientError, TimeoutError, OSError) as error:
            raise FileUnavailableError(f"the file did not come whole: {_text(error)}") from None


def _parameter(value: Any) -> Any:
    """Return a value as a field of a form takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict | list) else value


def _proxy_for(url: str) -> str | None:
    """Return the proxy of a socket; aiohttp knows those of http:// and https:// only."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https" if parts.scheme == "wss" else "http")


def _text(error: BaseException) -> str:
    """Return an error's text without an address, which may hold a ticket."""
    return f"{type(error).__name__}: {error}".split("url=", 1)[0][:300]


def _meaning(method: str, error: SlackApiError) -> NotSent | UnclearError:
    """Return what Slack's refusal means for what was to be sent."""
    answer = error.response
    data, status = getattr(answer, "data", None), getattr(answer, "status_code", 0)
    told: Mapping[str, Any] = data if isinstance(data, dict) else {}
    code = str(told.get("error") or "")
    if status == 429 or code in _LIMITED:
        wait = wait_of(getattr(answer, "headers", {}).get("Retry-After"))
        wait = DEFAULT_RETRY_SECONDS if wait is None else wait
        return RefusedError("Slack limits the rate", code or "ratelimited", retry_after=wait)
    if not code or code in _UNCLEAR or status >= 500:
        return UnclearError(f"Slack has an error in {method}: {code or status or 'no answer of Slack'}")
    if code in _NO_TOKEN:
        name = "app-token" if method == "apps.connections.open" else "token"
        return RefusedError(f"Slack does not know this app ({code}): check `{name}`", code)
    if code == "missing_scope":
        needed = told.get("needed") or "another scope"
        text = f"Slack: {method} needs the scope {needed}; add it to the app and install the app anew"
        return RefusedError(text, code, final=True)
    more = told.get("response_metadata")
    messages = more.get("messages") if isinstance(more, dict) else None
    why = f" ({'; '.join(map(str, messages))})" if isinstance(messages, list) and messages else ""
    return RefusedError(f"Slack: {code}{why}"[:500], code, final=True)
