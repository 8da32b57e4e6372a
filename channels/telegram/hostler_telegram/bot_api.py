"""The Bot API over aiogram: HTTP by the proxy of the sandbox, updates undecoded, and what errors mean."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import certifi
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    AiogramError,
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetFile
from aiogram.methods.base import TelegramMethod
from aiogram.types import Message
from aiogram.utils.token import TokenValidationError, validate_token
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientResponseError,
    ClientSession,
    TCPConnector,
)

from hostler_sdk.channels import NotSent, SetupError, UnclearError
from hostler_sdk.channels.attachments import FileUnavailableError

CALL_SECONDS = 50.0
"""Time for one call, with its files."""
POLL_SECONDS = 25
"""How long Telegram keeps `getUpdates` open when there is nothing new."""
PIECE_BYTES = 256 * 1024

_T = TypeVar("_T")


class UnreadError(UnclearError):
    """Telegram carried a call out; aiogram cannot read its answer, as of an older or newer Bot API."""

    def __init__(self, result: Any) -> None:
        super().__init__("Telegram carried it out, and answered in a form that is not known")
        self.result = result


class GetRawUpdates(TelegramMethod[list[dict[str, Any]]]):
    """`getUpdates`, undecoded: one update that aiogram cannot read must not hold up those behind it."""

    __returning__ = list[dict[str, Any]]
    __api_method__ = "getUpdates"

    offset: int | None = None
    timeout: int = POLL_SECONDS
    limit: int = 100
    allowed_updates: list[str] = []


class _Call(TelegramMethod[Any]):
    """Any method, with any parameters."""

    __returning__ = Any
    __api_method__ = ""


def any_call(method: str, params: Mapping[str, Any]) -> TelegramMethod[Any]:
    """Return a call of a method by its name."""
    kind: type[_Call] = type(method, (_Call,), {"__api_method__": method, "__module__": __name__})
    return kind(**params)


class Session(AiohttpSession):
    """An HTTP session that takes the proxy and the certificates of its environment."""

    async def create_session(self) -> ClientSession:
        """Return the open session."""
        if self._session is None or self._session.closed:
            certificates = os.environ.get("SSL_CERT_FILE") or certifi.where()
            connector = TCPConnector(ssl=ssl.create_default_context(cafile=certificates), limit=40)
            self._session = ClientSession(connector=connector, trust_env=True)
        return self._session

    async def close(self) -> None:
        """Close it, with the answers that are still waited for."""
        if self._session is not None:
            await self._session.close()


class BotApi:
    """The methods of one bot. Errors are those that a channel raises: NotSent, or UnclearError."""

    def __init__(self, token: str, base_url: str) -> None:
        """Raises SetupError if the token or the address has a wrong form."""
        if not base_url.startswith(("http://", "https://")):
            raise SetupError("`base-url` must begin with https:// or http://")
        try:
            validate_token(token)
        except TokenValidationError:
            raise SetupError(
                "`token` is no token of a bot: @BotFather gives it, like 123456:ABC-DEF"
            ) from None
        self._token = token
        server = TelegramAPIServer.from_base(base_url)
        self.bot = Bot(token, session=Session(api=server, timeout=CALL_SECONDS))

    async def close(self) -> None:
        """Close the connections."""
        await self.bot.session.close()

    def clean(self, error: BaseException | str) -> str:
        """Return the text of an error without the token, which is part of each address."""
        text = str(error) if isinstance(error, str) else getattr(error, "message", "") or repr(error)
        return text.replace(self._token, "[token]")[:1_000]

    async def call(self, method: TelegramMethod[_T], *, seconds: float = CALL_SECONDS) -> _T:
        """Call a method; to a group that became a supergroup, under its new id.

        Raises NotSent if it was certainly not carried out, UnclearError if that is not known.
        """
        try:
            try:
                return await self.bot(method, request_timeout=int(seconds))
            except TelegramMigrateToChat as moved:
                there = method.model_copy(update={"chat_id": moved.migrate_to_chat_id})
                return await self.bot(there, request_timeout=int(seconds))
        except AiogramError as error:
            raise self.meaning(error) from None  # its chain may hold an address, and so the token

    async def done(self, method: TelegramMethod[Any]) -> Any:
        """Call a method that does something; what aiogram cannot read of the answer is returned as JSON."""
        try:
            return await self.call(method)
        except UnreadError as unread:
            return unread.result

    async def sent(self, method: TelegramMethod[Message]) -> str:
        """Call a method that sends a message; return its id."""
        message = await self.done(method)
        return str(message.message_id if isinstance(message, Message) else message["message_id"])

    def meaning(self, error: AiogramError) -> NotSent | UnclearError:  # noqa: C901, PLR0911 - a table
        """Return what an error means for what was to be sent."""
        text = self.clean(error)
        match error:
            case TelegramRetryAfter(retry_after=seconds):
                return NotSent("Telegram limits the rate", retry_after=float(seconds))
            case TelegramNotFound(method=_Call(__api_method__=name)):
                return NotSent(f"the Bot API has no method {name}", final=True)
            case TelegramUnauthorizedError() | TelegramNotFound():
                return NotSent(f"Telegram does not know this bot ({text}): check `token`")
            case TelegramForbiddenError() | TelegramBadRequest():
                return NotSent(f"Telegram: {text}", final=True)
            case TelegramEntityTooLarge():
                return NotSent("Telegram: the file is too large", final=True)
            case TelegramConflictError() | TelegramMigrateToChat():
                return NotSent(f"Telegram: {text}")
            case TelegramNetworkError(__cause__=ClientConnectorError() | ClientHttpProxyError()):
                return NotSent(f"Telegram cannot be reached: {text}")
            case TelegramNetworkError():
                return UnclearError(f"the connection to Telegram broke: {text}")
            case TelegramServerError():
                return UnclearError(f"Telegram has an error: {text}")
            case ClientDecodeError(data={"ok": True, "result": result}):
                return UnreadError(result)
            case ClientDecodeError():
                return UnclearError("what came was no answer of the Bot API: of a proxy, or an error page")
            case TelegramAPIError():
                return NotSent(f"Telegram: {text}", final="Too Many Requests" not in text)
        return UnclearError(text)

    async def download(self, file_id: str) -> AsyncIterator[bytes]:
        """Yield the content of a file. Raises FileUnavailableError."""
        try:
            found = await self.bot(GetFile(file_id=file_id))
        except AiogramError as error:
            why = self.meaning(error)
            final = isinstance(why, NotSent) and why.final
            raise FileUnavailableError(self.clean(str(why)), final=final) from None
        path = found.file_path
        if not path:
            raise FileUnavailableError("Telegram gives no address of the file")
        if path.startswith("/"):
            text = "the Bot API server keeps files on its own disk: run it without --local"
            raise FileUnavailableError(text, final=True)
        url = self.bot.session.api.file_url(self._token, path)
        try:
            async for piece in self.bot.session.stream_content(
                url, timeout=int(CALL_SECONDS), chunk_size=PIECE_BYTES
            ):
                yield piece
        except ClientResponseError as error:
            text = f"Telegram answered {error.status} for the file"
            raise FileUnavailableError(text, final=error.status in {400, 403, 404}) from None
        except (ClientError, TimeoutError, OSError) as error:
            raise FileUnavailableError(f"the file did not come whole: {self.clean(error)}") from None
