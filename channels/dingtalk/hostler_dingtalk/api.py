"""DingTalk's two HTTP APIs: the access token of the app, calls, files, and what errors mean.

The client of dingtalk-stream makes these calls with requests, which hold up everything else, without a bound
of time, and tells of an error in its log alone. So its protocol is used, and the calls are made here.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientSession,
    ClientTimeout,
    FormData,
    TCPConnector,
)

from hostler_dingtalk.fields import fields_of, list_of, text_of
from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError
from hostler_sdk.channels.retry_after import wait_of

CALL_SECONDS = 50.0
"""Time for one call, with its files."""
CONNECT_SECONDS = 20.0
PIECE_BYTES = 256 * 1024
MAX_ANSWER_BYTES = 8 * 1024 * 1024
SPARE_SECONDS = 300.0
"""So long before its end a token is not used any more."""
LIMIT_SECONDS = 2.0
"""Where DingTalk limits the rate and does not say for how long; it counts calls by the second."""

_NO_TOKEN = {"InvalidAuthentication", "40014", "42001"}
"""Of a token that is not known or not valid any more. DingTalk has done nothing then."""
_LIMITED = ("QpsLimit", "Throttling", "FlowControl", "flowControl", "TooManyRequests")
_OLD_LIMITS = {"90002", "90005", "90006", "90007", "90008", "90018"}
"""Of the older API."""
_PASSING = {"-1"}
"""Of the older API: the system is busy."""
_BUSY = re.compile(r"system|busy|unavailable|timeout|unknownerror|internal", re.IGNORECASE)
"""In codes of errors after which some of the call may have been carried out, whatever the status."""


class RefusedError(NotSent):
    """DingTalk refused a call with an error code of its own."""

    def __init__(
        self, message: str, code: str, *, final: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, final=final, retry_after=retry_after)
        self.code = code


class Api:
    """The calls of one app. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, client_id: str, secret: str, base_url: str, files_url: str) -> None:
        """Raises SetupError if a setting has a wrong form."""
        for name, url in (("base-url", base_url), ("files-url", files_url)):
            if not url.startswith(("http://", "https://")):
                raise SetupError(f"`{name}` must begin with https:// or http://")
        if not client_id or not secret:
            raise SetupError(
                "`client-id` and `client-secret` are needed; the app's page Credentials has them"
            )
        self.client_id = client_id
        self.secret = secret
        self.base_url = base_url.rstrip("/")
        self._files_url = files_url.rstrip("/")
        self.tls = ssl.create_default_context()
        self._session: ClientSession | None = None
        self._token: tuple[str, float] | None = None
        self._renewing = asyncio.Lock()

    def start(self) -> None:
        """Open the HTTP session. It takes the proxy and the certificates of its environment."""
        timeout = ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        connector = TCPConnector(ssl=self.tls, limit=40)
        self._session = ClientSession(connector=connector, timeout=timeout, trust_env=True)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    # -- the token --------------------------------------------------------------------------------

    async def token(self) -> str:
        """Return the access token; a new one before the old one ends. Raises NotSent."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._token is None or now >= self._token[1]:
                body = {"appKey": self.client_id, "appSecret": self.secret}
                try:
                    answer = await self.ask("POST", f"{self.base_url}/v1.0/oauth2/accessToken", body)
                except UnclearError as error:
                    raise NotSent(str(error)) from None  # nothing was to be done yet
                token, seconds = text_of(answer.get("accessToken")), answer.get("expireIn")
                if token is None:
                    raise NotSent("DingTalk gave no access token")
                seconds = seconds if isinstance(seconds, int | float) else 0.0
                self._token = token, now + max(0.0, seconds - SPARE_SECONDS)
            return self._token[0]

    def _forget(self, token: str) -> None:
        if self._token is not None and self._token[0] == token:
            self._token = None

    async def call(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Make a call with the app's token, and return DingTalk's answer.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        for last in (False, True):
            token = await self.token()
            try:
                return await self.ask(verb, f"{self.base_url}{path}", body, token=token, query=query)
            except RefusedError as error:
                if error.code not in _NO_TOKEN:
                    raise
                self._forget(token)
                if last:
                    raise
        raise AssertionError("the last try returns or raises")

    async def old_call(self, path: str, body: Mapping[str, Any] | FormData, **query: str) -> dict[str, Any]:
        """Make a call of the older API, whose errors come with status 200. Raises NotSent, UnclearError."""
        for last in (False, True):
            token = await self.token()
            given = {**query, "access_token": token}
            try:
                answer = await self.ask("POST", f"{self._files_url}{path}", body, query=given)
                code = str(answer.get("errcode", "0"))
                if code == "0":
                    return answer
                if code == "88" and "sub_code" in answer:  # what came before the call itself was refused
                    raise _old_refusal(str(answer["sub_code"]), str(answer.get("sub_msg") or ""))
                raise _old_refusal(code, str(answer.get("errmsg") or ""))
            except RefusedError as error:
                if error.code not in _NO_TOKEN or isinstance(body, FormData):
                    raise
                self._forget(token)
                if last:
                    raise
        raise AssertionError("the last try returns or raises")

    async def ask(
        self,
        verb: str,
        url: str,
        body: Mapping[str, Any] | FormData | None = None,
        *,
        token: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Make a request. Raises NotSent, UnclearError."""
        assert self._session is not None, "start comes first"
        headers = {} if token is None else {"x-acs-dingtalk-access-token": token}
        data = {"data": body} if isinstance(body, FormData) else {} if body is None else {"json": body}
        try:
            async with self._session.request(
                verb, url, headers=headers, params=query, allow_redirects=False, **data
            ) as answer:
                content = await answer.content.read(MAX_ANSWER_BYTES)
                while piece := await answer.content.read(MAX_ANSWER_BYTES):
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise UnclearError("DingTalk's answer is too long")
                status, retry = answer.status, answer.headers.get("Retry-After", "")
        except (ClientConnectorError, ClientHttpProxyError) as error:
            raise NotSent(f"DingTalk cannot be reached: {_text(error)}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise UnclearError(f"the connection to DingTalk broke: {_text(error)}") from None
        told = _decoded(content)
        if status == 200 and told is not None:
            return told
        raise _meaning(status, told, retry)

    # -- files ------------------------------------------------------------------------------------

    async def upload(self, kind: str, name: str, mime_type: str, content: bytes) -> str:
        """Store a file at DingTalk, where nobody sees it before it is sent; return its id. Raises NotSent."""
        for last in (False, True):
            form = FormData({"type": kind}, quote_fields=False)
            form.add_field("media", content, filename=name, content_type=mime_type)
            try:
                answer = await self.old_call("/media/upload", form, type=kind)
            except UnclearError as error:
                raise NotSent(f"a file could not be uploaded: {error}") from None
            except RefusedError as error:
                if error.code not in _NO_TOKEN or last:
                    raise
                self._token = None
                continue
            media_id = text_of(answer.get("media_id"))
            if media_id is None:
                raise NotSent("a file could not be uploaded: DingTalk gave no id for it")
            return media_id
        raise AssertionError("the last try returns or raises")

    async def download(self, code: str, robot_code: str) -> AsyncIterator[bytes]:
        """Yield the content of a file that somebody sent. Raises FileUnavailableError."""
        body = {"downloadCode": code, "robotCode": robot_code}
        try:
            answer = await self.call("POST", "/v1.0/robot/messageFiles/download", body)
        except NotSent as error:
            raise FileUnavailableError(error.message, final=error.final) from None
        except UnclearError as error:
            raise FileUnavailableError(str(error)) from None
        url = text_of(answer.get("downloadUrl")) or ""
        if self.base_url.startswith("https://") and url.startswith("http://"):
            url = f"https://{url.removeprefix('http://')}"  # DingTalk's stores speak both
        if not url.startswith(("https://", "http://")) or not urlsplit(url).hostname:
            raise FileUnavailableError("DingTalk gave no address of the file", final=True)
        assert self._session is not None, "start comes first"
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status != 200:
                    text = f"DingTalk answered {response.status} for the file"
                    raise FileUnavailableError(text, final=response.status in {404, 410})
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            raise FileUnavailableError(f"the file did not come whole: {_text(error)}") from None


def _decoded(content: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def _text(error: BaseException) -> str:
    """Return an error's text without an address, which may hold a token."""
    return f"{type(error).__name__}: {error}".split("url=", 1)[0][:300]


def _meaning(status: int, told: dict[str, Any] | None, retry: str) -> NotSent | UnclearError:
    """Return what an error means for what was to be done."""
    answer = told or {}
    code = text_of(answer.get("code")) or ""
    why = f"{code}: {answer.get('message')}"[:500] if code else f"status {status}"
    if status == 429 or any(word in code for word in _LIMITED):
        wait = wait_of(retry)
        wait = LIMIT_SECONDS if wait is None else wait
        return RefusedError(f"DingTalk limits the rate ({why})", code, retry_after=wait)
    if code == "InvalidAuthentication" or status == 401:
        text = f"DingTalk does not know this app ({why}): check `client-id` and `client-secret`"
        return RefusedError(text, "InvalidAuthentication")
    if code in {"invalidClientIdOrSecret", "authFailed", "invalidParameter.appKey.notExist"}:
        return RefusedError(
            f"DingTalk does not know this app ({why}): check `client-id` and `client-secret`", code
        )
    if "PermissionDenied" in code:
        needed = ", ".join(map(str, _scopes(answer))) or "another one"
        text = f"DingTalk: the app needs the permission {needed}; add it on the app's page Permissions"
        return RefusedError(text, code, final=True)
    if told is None or not code or status >= 500 or _BUSY.search(code):
        return UnclearError(f"DingTalk has an error: {why}")
    # of what is forbidden only for a time, as when the calls of a month are used up, there are many codes
    return RefusedError(f"DingTalk: {why}", code, final=not code.startswith("Forbidden"))


def _scopes(answer: dict[str, Any]) -> list[Any]:
    detail = fields_of(answer.get("accessdenieddetail") or answer.get("accessDeniedDetail"))
    return list_of(detail.get("requiredScopes"))[:5]


def _old_refusal(code: str, message: str) -> RefusedError:
    why = f"{code}: {message}"[:500]
    if code in _OLD_LIMITS:
        return RefusedError(f"DingTalk limits the rate ({why})", code, retry_after=LIMIT_SECONDS)
    return RefusedError(f"DingTalk: {why}", code, final=code not in _PASSING | _NO_TOKEN)
