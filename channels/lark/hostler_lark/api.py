"""The API of Lark over lark-oapi: one HTTP session, the app's token, and what errors mean.

The library's own transport opens a session for each call, which takes 30 ms of processor time, and holds its
tokens for all apps of a process. So its requests, addresses and headers are used, with a session of ours.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from hostler_lark.library import (
    AccessTokenType,
    BaseRequest,
    Config,
    HttpMethod,
    RequestOption,
    build_header,
    build_url,
)
from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError
from hostler_sdk.channels.retry_after import wait_of

CALL_SECONDS = 25.0
CONNECT_SECONDS = 15.0
UPLOAD_SECONDS = 50.0
MAX_ANSWER_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 256 * 1024
TOKEN_MARGIN_SECONDS = 300.0
"""A token is replaced so long before it expires; Lark gives another one in its last half hour."""
DEFAULT_RETRY_SECONDS = 5.0
"""Where Lark limits the rate and does not say for how long."""
DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}

_TOKEN_PATH = "/open-apis/auth/v3/tenant_access_token/internal"  # noqa: S105 - an address
_LIMITED = {99991400, 230020, 11232, 11233, 11247}
_AGAIN = {230049: "the message is being sent", 232019: "the group is being changed", 1: "system busy"}
"""Codes of what passes by itself."""
_NO_TOKEN = {99991661, 99991663, 99991664, 99991665}
_NO_APP = {10003, 10012, 10013, 10014, 10015}
"""Codes of the token's address: no such app, or another secret."""
_NO_SCOPE = {99991672, 99991679}
_LOCKED = "card action is lock"
"""In the refusal of an edit while somebody presses a button of the card."""
CARD_REFUSED = 230099
UNCLEAR_FROM = 500


class RefusedError(NotSent):
    """Lark refused a call with a code of its own."""

    def __init__(
        self, message: str, code: int, *, final: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, final=final, retry_after=retry_after)
        self.code = code


@dataclass(slots=True)
class Token:
    """The app's token, and until when it is used, by the loop's clock."""

    value: str
    until: float


class Api:
    """The calls of one app. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, app_id: str, app_secret: str, base_url: str) -> None:
        """Raises SetupError if a setting has a wrong form."""
        if not base_url.startswith(("http://", "https://")):
            raise SetupError("`base-url` must begin with https:// or http://, like https://open.feishu.cn")
        if not re.fullmatch(r"cli_\w{1,60}", app_id, re.ASCII):
            raise SetupError("`app-id` must be the App ID of the app, which begins with cli_")
        if not app_secret.strip() or not app_secret.isascii():
            raise SetupError("`app-secret` must be the App Secret of the app")
        self.app_id = app_id
        self._secret = app_secret
        self._config = Config()
        self._config.domain = base_url.rstrip("/")
        self._http: httpx.AsyncClient | None = None
        self._token: Token | None = None
        self._asking = asyncio.Lock()

    def start(self) -> None:
        """Open the HTTP session. It takes the proxy and the certificates of its environment."""
        timeout = httpx.Timeout(CALL_SECONDS, connect=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(timeout=timeout, limits=httpx.Limits(max_connections=40))

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    # -- calls ------------------------------------------------------------------------------------

    async def call(
        self,
        verb: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        files: Mapping[str, Any] | None = None,
        *,
        seconds: float = CALL_SECONDS,
        **paths: str,
    ) -> dict[str, Any]:
        """Call `path`, whose `:names` are in `paths`, and return what Lark answers.

        A token that Lark does not take any more is replaced, once. Raises NotSent, UnclearError.
        """
        for is_last in (False, True):
            token = await self._valid_token()
            request = self._request(verb, path, query, body, files, paths, token)
            try:
                return await self._asked(request, seconds)
            except RefusedError as error:
                if error.code not in _NO_TOKEN or is_last:
                    raise
                self._forget(token)
        raise AssertionError  # the second turn returns or raises

    async def data(self, verb: str, path: str, *args: Any, **more: Any) -> dict[str, Any]:
        """Call, and return the `data` of the answer."""
        found = (await self.call(verb, path, *args, **more)).get("data")
        return found if isinstance(found, dict) else {}

    async def open_call(self, path: str, body: Any) -> dict[str, Any]:
        """Call a path that takes the app's secret in place of a token. Raises NotSent, UnclearError."""
        return await self._asked(self._request("POST", path, None, body, None, {}, None), CALL_SECONDS)

    async def endpoint(self, path: str) -> dict[str, Any]:
        """Ask for the address of a long connection. Raises NotSent, UnclearError."""
        answer = await self.open_call(path, {"AppID": self.app_id, "AppSecret": self._secret})
        data = answer.get("data")
        return data if isinstance(data, dict) else {}

    def _request(  # noqa: PLR0917
        self,
        verb: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        files: Mapping[str, Any] | None,
        paths: Mapping[str, str],
        token: str | None,
    ) -> httpx.Request:
        """Return a request as the library makes it."""
        assert self._http is not None, "start comes first"
        made, option = BaseRequest(), RequestOption()
        made.http_method, made.uri, made.paths = HttpMethod[verb], path, dict(paths)
        if token is not None:
            made.token_types, option.tenant_access_token = {AccessTokenType.TENANT}, token
        for name, value in (query or {}).items():
            if value is not None:
                made.add_query(name, _parameter(value))
        return self._http.build_request(
            verb,
            build_url(self._config.domain, made.uri, made.paths),
            headers=build_header(made, option, self._config),
            params=made.queries or None,
            json=body if files is None else None,
            data=body if files is not None else None,
            files=files,
        )

    async def _asked(self, request: httpx.Request, seconds: float) -> dict[str, Any]:
        assert self._http is not None, "start comes first"
        try:
            async with asyncio.timeout(seconds):
                answer = await self._http.send(request, stream=True)
                try:
                    content = await _content(answer)
                finally:
                    await answer.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.PoolTimeout) as error:
            raise NotSent(f"Lark cannot be reached: {self._text(error)}") from None
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise UnclearError(f"the connection to Lark broke: {self._text(error)}") from None
        return self._meaning(request, answer, content)

    def _meaning(self, request: httpx.Request, answer: httpx.Response, content: bytes) -> dict[str, Any]:
        """Return an answer of success. Raises NotSent, UnclearError."""
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            told = None
        code = told.get("code") if isinstance(told, dict) else None
        if not isinstance(code, int) or isinstance(code, bool) or not isinstance(told, dict):
            if answer.status_code == 429:
                raise RefusedError("Lark limits the rate", 429, retry_after=_wait(answer.headers))
            raise UnclearError(
                f"what came (status {answer.status_code}) was no answer of Lark: of a proxy, or an error page"
            )
        if code == 0 and answer.status_code < 400:
            return told
        message = str(told.get("msg") or "")[:500].replace(self._secret, "[secret]")
        if answer.status_code == 429 or code in _LIMITED:
            raise RefusedError("Lark limits the rate", code, retry_after=_wait(answer.headers))
        if code in _AGAIN:
            raise RefusedError(f"Lark: {_AGAIN[code]}", code, retry_after=DEFAULT_RETRY_SECONDS)
        if code == CARD_REFUSED and _LOCKED in message:
            raise RefusedError("a button of the card is being pressed", code, retry_after=1.0)
        if answer.status_code >= UNCLEAR_FROM:
            raise UnclearError(f"Lark has an error: {code} {message}")
        raise RefusedError(
            _refusal(code, message, told, request), code, final=code not in _NO_TOKEN | _NO_APP
        )

    # -- the token --------------------------------------------------------------------------------

    async def _valid_token(self) -> str:
        """Return the app's token, which is asked for once however many calls need it."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            if self._token is None or loop.time() >= self._token.until:
                answer = await self._new_token()
                value, seconds = answer.get("tenant_access_token"), answer.get("expire")
                if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]{1,2000}", value):
                    raise NotSent("Lark gave no token to the app")
                known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
                lasts = float(seconds) if known and seconds is not None else 0.0
                self._token = Token(value, loop.time() + max(lasts - TOKEN_MARGIN_SECONDS, 1.0))
            return self._token.value

    async def _new_token(self) -> dict[str, Any]:
        try:
            return await self.open_call(_TOKEN_PATH, {"app_id": self.app_id, "app_secret": self._secret})
        except UnclearError as error:  # the call that needs the token was not made
            raise NotSent(str(error)) from None
        except RefusedError as error:
            if error.retry_after is not None:
                raise
            text = f"Lark does not know this app: check `app-id`, `app-secret` and `domain` ({error.message})"
            raise RefusedError(text, error.code) from None

    def _forget(self, token: str) -> None:
        if self._token is not None and self._token.value == token:
            self._token = None

    # -- files ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def resource(self, message_id: str, key: str, kind: str) -> AsyncIterator[httpx.Response]:
        """Open a file of a message. Raises FileUnavailableError."""
        path = "/open-apis/im/v1/messages/:message_id/resources/:file_key"
        try:
            token = await self._valid_token()
            paths = {"message_id": message_id, "file_key": key}
            request = self._request("GET", path, {"type": kind}, None, None, paths, token)
            assert self._http is not None, "start comes first"
            answer = await self._http.send(request, stream=True)
        except (NotSent, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise FileUnavailableError(f"Lark did not give the file: {self._text(error)}") from None
        try:
            if answer.status_code != 200:
                await self._refuse_file(request, answer, token)
            yield answer
        except (httpx.HTTPError, OSError) as error:
            raise FileUnavailableError(f"the file did not come whole: {self._text(error)}") from None
        finally:
            await answer.aclose()

    async def _refuse_file(self, request: httpx.Request, answer: httpx.Response, token: str) -> None:
        try:
            self._meaning(request, answer, await _content(answer))
            text, final = f"Lark answered {answer.status_code}", False
        except RefusedError as error:
            if error.code in _NO_TOKEN:
                self._forget(token)
            text, final = error.message, error.final
        except UnclearError as error:
            text, final = str(error), False
        raise FileUnavailableError(text, final=final)

    async def download(self, message_id: str, key: str, kind: str) -> AsyncIterator[bytes]:
        """Yield the content of a file. Raises FileUnavailableError."""
        async with self.resource(message_id, key, kind) as answer:
            async for piece in answer.aiter_bytes(PIECE_BYTES):
                yield piece

    def _text(self, error: BaseException) -> str:
        return f"{type(error).__name__}: {error}".replace(self._secret, "[secret]")[:300]


async def _content(answer: httpx.Response) -> bytes:
    """Return an answer's content, within a bound. Raises httpx.HTTPError."""
    content = bytearray()
    async for piece in answer.aiter_bytes(PIECE_BYTES):
        content += piece
        if len(content) > MAX_ANSWER_BYTES:
            raise httpx.DecodingError("the answer is larger than any of Lark's")
    return bytes(content)


def _parameter(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _wait(headers: Mapping[str, str]) -> float:
    """Return how long Lark says to wait."""
    for name in ("x-ogw-ratelimit-reset", "retry-after"):
        if (seconds := wait_of(headers.get(name))) is not None:
            return max(seconds, 0.2)
    return DEFAULT_RETRY_SECONDS


def _refusal(code: int, message: str, told: Mapping[str, Any], request: httpx.Request) -> str:
    """Return a refusal in words: the code, what Lark says, and the scopes that are missing."""
    error = told.get("error")
    missing = error.get("permission_violations") if isinstance(error, dict) else None
    if code in _NO_SCOPE or missing:
        scopes = [str(one.get("subject")) for one in missing or [] if isinstance(one, dict)]
        names = " or ".join(scopes) or "a permission"
        return f"Lark: the app needs {names} for {request.url.path}: add it, and publish the app ({code})"
    return f"Lark: {message or 'refused'} ({code})"
