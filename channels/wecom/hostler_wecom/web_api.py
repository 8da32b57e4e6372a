"""WeCom's server API: a small client of our own, as there is no library for it that is kept up.

One HTTP session, the access token, files, and what errors mean. It repeats nothing but a call that WeCom
refused for a token that had expired.
"""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import certifi
import msgspec
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TCPConnector,
)

from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError
from hostler_wecom.access_token import AccessToken
from hostler_wecom.errors import OK, STALE_TOKEN, RefusedError, code_of, meaning

CALL_SECONDS = 50.0
"""Time for one call, with its files."""
CONNECT_SECONDS = 20.0
MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_AT_ONCE = 40
"""Calls at once; WeCom limits them (45033)."""
PIECE_BYTES = 256 * 1024
_FORM = "multipart/form-data; boundary="


@dataclass(frozen=True, slots=True)
class MediaHead:
    """What WeCom says of a file before its content."""

    mime_type: str | None
    name: str | None
    size_bytes: int | None


class WebApi:
    """The calls of one application. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, corp_id: str, secret: str, base_url: str) -> None:
        """Raises SetupError if a setting is missing or has a wrong form."""
        if not base_url.startswith(("http://", "https://")):
            raise SetupError("`base-url` must begin with https://, like https://qyapi.weixin.qq.com")
        if not corp_id or not secret:
            raise SetupError("`corp-id` and `secret` of the application are needed")
        self._corp_id = corp_id
        self._secret = secret
        self._base = base_url.rstrip("/") + "/cgi-bin/"
        self._tokens = AccessToken(self._ask_token)
        self._session: ClientSession | None = None

    def start(self) -> None:
        """Open the HTTP session. It takes the proxy and the certificates of its environment."""
        certificates = os.environ.get("SSL_CERT_FILE") or certifi.where()
        connector = TCPConnector(ssl=ssl.create_default_context(cafile=certificates), limit=MAX_AT_ONCE)
        timeout = ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        self._session = ClientSession(connector=connector, timeout=timeout, trust_env=True)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    # -- calls ------------------------------------------------------------------------------------

    async def sign_in(self) -> None:
        """Ask for an access token, by which WeCom tells whether the settings are right. Raises NotSent."""
        await self._tokens.get()

    async def call(
        self, method: str, body: dict[str, Any] | None = None, *, query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Call a method like `message/send`: with a body by POST, else by GET. Return WeCom's answer.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        content = None if body is None else msgspec.json.encode(body)
        return await self._with_token(method, query or {}, content, "application/json")

    async def upload(self, kind: str, name: str, mime_type: str, content: bytes) -> str:
        """Upload a file for three days; return its id. Nobody sees it before it is sent. Raises NotSent."""
        boundary = secrets.token_hex(16)
        # their own notation: the name as it is, and the length beside it
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="media"; filename="{_quotable(name)}"; '
            f"filelength={len(content)}\r\nContent-Type: {mime_type}\r\n\r\n"
        )
        whole = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        try:
            answer = await self._with_token("media/upload", {"type": kind}, whole, _FORM + boundary)
        except UnclearError as error:
            raise NotSent(f"a file could not be uploaded: {error}") from None
        media_id = answer.get("media_id")
        if not isinstance(media_id, str) or not media_id:
            raise NotSent("WeCom gave no id for a file that was uploaded")
        return media_id

    async def _with_token(
        self, method: str, query: dict[str, str], content: bytes | None, content_type: str
    ) -> dict[str, Any]:
        for last in (False, True):
            token = await self._tokens.get()
            answer = await self._answer(method, {**query, "access_token": token}, content, content_type)
            code = code_of(answer)
            if code == OK:
                return answer
            if code in STALE_TOKEN:
                self._tokens.forget(token)
            if last or code not in STALE_TOKEN:
                raise self._clean(meaning(method, answer))
        raise AssertionError("the last try returns or raises")

    async def _ask_token(self) -> dict[str, Any]:
        query = {"corpid": self._corp_id, "corpsecret": self._secret}
        try:
            answer = await self._answer("gettoken", query, None, "")
        except UnclearError as error:
            raise NotSent(str(error)) from None
        if code_of(answer) != OK:
            why = self._clean(meaning("gettoken", answer))
            raise why if isinstance(why, NotSent) else NotSent(str(why))
        return answer

    async def _answer(
        self, method: str, query: dict[str, str], content: bytes | None, content_type: str
    ) -> dict[str, Any]:
        """Make a request; return the JSON object that answers it. Raises NotSent, UnclearError."""
        async with self._asked(method, query, content, content_type) as answer:
            text = await answer.content.read(MAX_ANSWER_BYTES + 1)
            while len(text) <= MAX_ANSWER_BYTES and (more := await answer.content.read(PIECE_BYTES)):
                text += more
            status = answer.status
        if status >= 500:
            raise UnclearError(f"WeCom has an error in {method}: HTTP {status}")
        try:
            found = msgspec.json.decode(text[:MAX_ANSWER_BYTES])
        except msgspec.DecodeError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("errcode"), int):
            raise UnclearError(
                f"what came was no answer of WeCom to {method} (HTTP {status}): of a proxy, or an error page"
            )
        return found

    @asynccontextmanager
    async def _asked(
        self, method: str, query: dict[str, str], content: bytes | None, content_type: str
    ) -> AsyncIterator[ClientResponse]:
        assert self._session is not None, "start comes first"
        try:
            async with self._session.request(
                "GET" if content is None else "POST",
                self._base + method,
                params=query,
                data=content,
                headers={} if content is None else {"content-type": content_type},
                allow_redirects=False,  # a redirect would carry the token elsewhere
            ) as answer:
                yield answer
        except (ClientConnectorError, ClientHttpProxyError) as error:
            raise NotSent(f"WeCom cannot be reached: {_text(error)}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise UnclearError(f"the connection to WeCom broke: {_text(error)}") from None

    def _clean(self, error: RefusedError | UnclearError) -> RefusedError | UnclearError:
        """Take the secret out of an error's text, should WeCom ever repeat it."""
        error.args = tuple(str(one).replace(self._secret, "[secret]") for one in error.args)
        if isinstance(error, RefusedError):
            error.message = error.message.replace(self._secret, "[secret]")
        return error

    # -- files ------------------------------------------------------------------------------------

    async def head(self, media_id: str) -> MediaHead:
        """Return what WeCom says of a file that somebody sent. Raises FileUnavailableError."""
        async with self._media(media_id) as answer:
            named = answer.content_disposition
            mime_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            return MediaHead(
                mime_type if "/" in mime_type and mime_type != "application/octet-stream" else None,
                None if named is None else named.filename,
                answer.content_length,
            )

    async def download(self, media_id: str) -> AsyncIterator[bytes]:
        """Yield the content of a file that somebody sent. Raises FileUnavailableError."""
        async with self._media(media_id) as answer:
            async for piece in answer.content.iter_chunked(PIECE_BYTES):
                yield piece

    @asynccontextmanager
    async def _media(self, media_id: str) -> AsyncIterator[ClientResponse]:
        try:
            for last in (False, True):
                token = await self._tokens.get()
                query = {"media_id": media_id, "access_token": token}
                async with self._asked("media/get", query, None, "") as answer:
                    if answer.status == 200 and answer.headers.get("content-disposition"):
                        yield answer
                        return
                    code = await self._media_refusal(answer)
                self._tokens.forget(token)
                if last:
                    raise FileUnavailableError(f"WeCom does not take the access token that it gave ({code})")
        except (NotSent, UnclearError) as error:
            raise FileUnavailableError(str(error)) from None

    async def _media_refusal(self, answer: ClientResponse) -> int:
        """Return the code of a token that has expired. Raises FileUnavailableError for other refusals."""
        try:
            found = msgspec.json.decode(await answer.content.read(PIECE_BYTES))
        except msgspec.DecodeError:
            found = None
        if not isinstance(found, dict):
            text = f"WeCom answered HTTP {answer.status} for the file"
            raise FileUnavailableError(text, final=answer.status in {400, 403, 404, 410})
        code = code_of(found)
        if code in STALE_TOKEN:
            return code
        error = self._clean(meaning("media/get", found))
        raise FileUnavailableError(str(error), final=isinstance(error, NotSent) and error.final)


def _quotable(name: str) -> str:
    """Return the name of a file without what would end it in a header."""
    return "".join("_" if char in '"\\/' or not char.isprintable() else char for char in name)[:120] or "file"


def _text(error: BaseException) -> str:
    """Return an error's text without the query of an address, which has the token or the secret in it."""
    return f"{type(error).__name__}: {error}".split("url=", 1)[0].split("?", 1)[0][:300]
