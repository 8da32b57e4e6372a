"""The client-server API over matrix-nio: its requests, answers within bounds, and what errors mean.

nio's own methods try again by themselves, and drop what their schemas do not expect: one event that they
cannot read would hold up all others. So its `Api` writes the requests, its `AsyncClient` sends them, and the
answers are read here.
"""

from __future__ import annotations

import json
import math
import os
import re
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import certifi
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TCPConnector,
)
from nio import Api, AsyncClient, AsyncClientConfig

from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError
from hostler_sdk.channels.retry_after import wait_of

CALL_SECONDS = 50.0
"""Time for one call, with its file."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 256 * 1024
LEGACY_MEDIA = "/_matrix/media/v3"
"""Where homeservers before Matrix 1.11 have files."""
TOKEN_ERRORS = {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED"}
_PASSING = TOKEN_ERRORS | {"M_RESOURCE_LIMIT_EXCEEDED", "M_CONSENT_NOT_GIVEN", "M_USER_LOCKED"}
"""Errors of an account that somebody can mend: what was to be sent is not to blame."""
_MXC = re.compile(r"mxc://([A-Za-z0-9\[][A-Za-z0-9.:\[\]-]{0,254})/([A-Za-z0-9_-]{1,255})")

Request = tuple[str, ...]
"""Method, path and, of some, the body: as `Api` returns them."""


class Refused(NotSent):
    """The homeserver refused a call. `errcode`: Matrix' own; "" if the answer has none."""

    def __init__(
        self, message: str, errcode: str, *, final: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, final=final, retry_after=retry_after)
        self.errcode = errcode


class HomeServer:
    """The homeserver of one account. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, url: str, token: str) -> None:
        """Raises SetupError if the address or the token has a wrong form."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
            raise SetupError("`homeserver` must be an address that begins with https:// or http://")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise SetupError("`access-token` is no access token: docs/channels/matrix.md says how to get one")
        self._token = token
        config = AsyncClientConfig(encryption_enabled=False, store=None)
        certificates = os.environ.get("SSL_CERT_FILE") or certifi.where()
        self._tls = ssl.create_default_context(cafile=certificates)
        self._client = AsyncClient(url.rstrip("/"), config=config, ssl=self._tls)

    async def open(self) -> None:
        """Make the HTTP session: it takes the proxy of its environment."""
        connector = TCPConnector(ssl=self._tls, limit=40)
        self._client.client_session = ClientSession(connector=connector, trust_env=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def call(
        self,
        request: Request,
        *,
        seconds: float = CALL_SECONDS,
        content: bytes | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """Make a call and return the object that it answers. `content`: in place of the request's body.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        body = content if content is not None else request[2] if len(request) > 2 else None
        try:
            async with await self._request(request, seconds, body, content_type) as response:
                answer = await _bounded(response)
        except (ClientConnectorError, ClientHttpProxyError) as error:
            raise NotSent(f"the homeserver cannot be reached: {self.clean(error)}") from None
        except (ClientError, TimeoutError, OSError) as error:
            raise UnclearError(f"the connection to the homeserver broke: {self.clean(error)}") from None
        found = decoded(answer)
        if response.status != 200:
            raise self._meaning(response, found if isinstance(found, dict) else {})
        if not isinstance(found, dict):
            raise UnclearError("what came was no answer of a homeserver: of a proxy, or an error page")
        return found

    async def _request(
        self, request: Request, seconds: float, body: Any = None, content_type: str = "application/json"
    ) -> ClientResponse:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        method, path = request[:2]
        response: ClientResponse = await self._client.send(
            method, _without_token(path), body, headers, timeout=ClientTimeout(total=seconds)
        )
        return response

    def clean(self, error: BaseException | str) -> str:
        """Return the text of an error without the token."""
        text = error if isinstance(error, str) else str(error) or type(error).__name__
        return text.replace(self._token, "[token]")[:1_000]

    def _meaning(self, response: ClientResponse, body: dict[str, Any]) -> NotSent | UnclearError:
        """Return what an error means for what was to be done."""
        status = response.status
        errcode, told = str(body.get("errcode") or ""), self.clean(str(body.get("error") or ""))
        text = f"the homeserver answered {status} {errcode} {told}".strip()
        if status == 429 or errcode == "M_LIMIT_EXCEEDED":
            seconds = wait_of(response.headers.get("Retry-After"))
            if seconds is None:
                seconds = wait_of(body.get("retry_after_ms"), unit=0.001)
            return Refused("the homeserver limits the rate", "M_LIMIT_EXCEEDED", retry_after=seconds)
        if errcode in TOKEN_ERRORS or status == 401:
            text = f"the homeserver does not know this access token ({text}): check `access-token`"
            return Refused(text, errcode or "M_UNKNOWN_TOKEN")
        if status >= 500:
            return UnclearError(text)
        if not errcode:
            return Refused(f"{text}, which is no answer of Matrix: check `homeserver`", "")
        return Refused(text, errcode, final=errcode not in _PASSING)

    # -- files ------------------------------------------------------------------------------------

    async def upload(self, content: bytes, name: str, mime_type: str) -> str:
        """Upload a file, and return its `mxc://` address."""
        answer = await self.call(Api.upload("", name), content=content, content_type=mime_type)
        uri = answer.get("content_uri")
        if not isinstance(uri, str):
            raise UnclearError("the homeserver took a file, and gave no address of it")
        return uri

    async def download(self, uri: str) -> AsyncIterator[bytes]:
        """Yield the content of a file. Raises FileUnavailableError."""
        found = _MXC.fullmatch(uri)
        if found is None:
            raise FileUnavailableError(f"{uri!r:.80} is no address of a file on Matrix", final=True)
        request = Api.download(*found.groups())
        try:
            response = await self._request(request, CALL_SECONDS)
            if response.status == 404 and await self._is_unknown(response):
                path = request[1].replace("/_matrix/client/v1/media", LEGACY_MEDIA)
                response = await self._request(("GET", path), CALL_SECONDS)
            async with response:
                if response.status != 200:
                    final = response.status in {400, 403, 404}
                    text = f"the homeserver answered {response.status} for the file"
                    raise FileUnavailableError(text, final=final)
                async for piece in response.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (ClientError, TimeoutError, OSError) as error:
            raise FileUnavailableError(f"the file did not come whole: {self.clean(error)}") from None

    @staticmethod
    async def _is_unknown(response: ClientResponse) -> bool:
        """Whether the homeserver has no such method; the response is closed."""
        async with response:
            body = decoded(await _bounded(response))
        return isinstance(body, dict) and body.get("errcode") == "M_UNRECOGNIZED"


def _without_token(path: str) -> str:
    """Take the token out of an address: it goes in a header, as addresses are in logs."""
    path, _, query = path.partition("?")
    kept = [
        (name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "access_token"
    ]
    return f"{path}?{urlencode(kept)}" if kept else path


async def _bounded(response: ClientResponse) -> bytes:
    content = bytearray()
    async for piece in response.content.iter_chunked(PIECE_BYTES):
        content += piece
        if len(content) > MAX_ANSWER_BYTES:
            raise ClientError(f"the answer has over {MAX_ANSWER_BYTES // 1024**2} MiB")
    return bytes(content)


# -- JSON -----------------------------------------------------------------------------------------


def decoded(content: bytes) -> Any:
    """Return JSON without numbers and characters that the host cannot take, or None if it is no JSON."""
    try:
        value = json.loads(content, parse_int=_whole, parse_float=_broken, parse_constant=lambda _: None)
        if b"\\ud" in content.lower():  # halves of a pair, which are no text
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value


def _whole(text: str) -> int | float | None:
    return int(text) if len(text) <= 16 else _broken(text)


def _broken(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
