"""One open connection to Telegram: receive updates and deliver them, answer presses, serve the webhook."""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec
from aiogram.exceptions import (
    AiogramError,
    TelegramNotFound,
    TelegramUnauthorizedError,
)
from aiogram.methods import AnswerCallbackQuery, DeleteWebhook, GetMe, SetWebhook
from aiogram.types import User

from hostler_sdk.channels import (
    ChannelConnection,
    ChannelRequestParams,
    ChannelResponse,
    NotSent,
    Person,
    SetupError,
    UnclearError,
)
from hostler_sdk.channels.attachments import RemoteFile
from hostler_sdk.channels.delivery import Delivery, file_bounds
from hostler_telegram.actions import Actions
from hostler_telegram.bot_api import POLL_SECONDS, BotApi, GetRawUpdates
from hostler_telegram.events import KINDS, read_update
from hostler_telegram.messages import Drafted, FileOf, person_of
from hostler_telegram.sender import Sender

if TYPE_CHECKING:
    from hostler_telegram.channel import Telegram

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Waits before Telegram is asked again after it could not be reached."""
ANSWER_SECONDS = 15.0
"""Time to answer a press; Telegram shows the person that it waits."""
MAX_NOTICE_CHARS = 200
"""Of `answerCallbackQuery`."""
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")
_OK = ChannelResponse(status=200)

logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender
    actions: Actions

    def __init__(self, channel: Telegram) -> None:
        settings = channel.settings
        self._channel = channel
        self._by_webhook = settings.get("receive") == "webhook"
        self._secret = str(settings.get("webhook-secret") or "")
        self._delivery = Delivery(channel, file_bounds(settings), kept=("value", "query_id"))
        self._api = BotApi(
            str(settings.get("token", "")), str(settings.get("base-url", "https://api.telegram.org"))
        )
        self.sender = Sender(self._api, channel, previews=settings.get("link-previews") is True)
        self.actions = Actions(self._api)
        self._me: User | None = None

    async def open(self) -> Person | None:
        """Ask who the bot is, and set or take away its webhook. Raises SetupError, ConnectionError."""
        self._me = await self._api.call(GetMe())
        if self._by_webhook:
            await self._api.call(self._webhook())
        else:
            await self._api.call(DeleteWebhook(drop_pending_updates=False))
        return person_of(self._me)

    def _webhook(self) -> SetWebhook:
        url = str(self._channel.settings.get("webhook-url") or "")
        if not url.startswith("https://"):
            raise SetupError("`webhook-url` must be the public address of this channel, with https://")
        if not _SECRET.fullmatch(self._secret):
            raise SetupError("`webhook-secret` must have 16 to 256 letters, digits, '_' and '-'")
        return SetWebhook(url=url, secret_token=self._secret, allowed_updates=KINDS)

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._api.close()

    async def run(self) -> None:
        """Receive and deliver until cancelled; with a webhook `request` does."""
        if self._by_webhook:
            await asyncio.Event().wait()
        await self._poll()

    # -- polling ----------------------------------------------------------------------------------

    async def _poll(self) -> None:
        wait, is_lost = FIRST_WAIT_SECONDS, False
        while True:
            try:
                # once it was lost, an answer at once tells that it is there again
                updates = await self._updates(0 if is_lost else POLL_SECONDS)
            except (NotSent, UnclearError) as error:
                self._channel.connecting(str(error))
                is_lost = True
                limit = error.retry_after if isinstance(error, NotSent) else None
                await asyncio.sleep(wait if limit is None else limit)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
                continue
            if is_lost:
                self._channel.connected()
            wait, is_lost = FIRST_WAIT_SECONDS, False
            for raw in updates:
                await self._take(raw)

    async def _updates(self, seconds: int) -> list[dict[str, Any]]:
        """Return the next updates, after at most `seconds`. Telegram forgets those before `offset` then."""
        state = self._channel.state
        offset = state.get("offset") if isinstance(state, dict) else None
        method = GetRawUpdates(offset=offset, timeout=seconds, allowed_updates=KINDS)
        try:
            return await self._api.bot(method, request_timeout=seconds + 15)
        except (TelegramUnauthorizedError, TelegramNotFound) as error:
            raise ConnectionError(str(self._api.meaning(error))) from None
        except AiogramError as error:
            raise self._api.meaning(error) from None

    async def _take(self, raw: dict[str, Any]) -> None:
        """Deliver the events of an update; the offset goes past it with the last one."""
        state = {"offset": raw["update_id"] + 1}
        drafts = read_update(raw, self._account)
        if not drafts:
            await self._channel.keep(state)
        for number, draft in enumerate(drafts, 1):
            await self._deliver(draft, state if number == len(drafts) else msgspec.UNSET)

    @property
    def _account(self) -> User:
        assert self._me is not None, "open comes first"
        return self._me

    # -- delivery ---------------------------------------------------------------------------------

    async def _deliver(self, draft: Drafted, state: Any) -> None:
        event, files = draft.event, [self._remote(file) for file in draft.files]
        reply = await self._delivery.deliver(event, files, state=state)
        if event.source_event_type == "callback_query":
            await self._answer(str(event.data["query_id"]), reply.notice)

    def _remote(self, file: FileOf) -> RemoteFile:
        return RemoteFile(
            lambda: self._api.download(file.file_id), file.name, file.mime_type, file.size_bytes
        )

    async def _answer(self, query_id: str, notice: str | None) -> None:
        """Answer a press. The event is durable: if the answer fails, the person's telephone waits in vain."""
        method = AnswerCallbackQuery(
            callback_query_id=query_id,
            text=None if notice is None else notice[:MAX_NOTICE_CHARS],
            show_alert=None if notice is None else True,
        )
        try:
            await self._api.call(method, seconds=ANSWER_SECONDS)
        except (NotSent, UnclearError) as error:  # as after a crash: "query is too old"
            logger.warning("a press could not be answered: %s", error)

    # -- webhook ----------------------------------------------------------------------------------

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer a call of the webhook: 200 once its event is durable."""
        if not self._by_webhook:
            return ChannelResponse(status=404)
        given = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            logger.warning("a call of the webhook without its secret was refused")
            return ChannelResponse(status=401)
        if request.method != "POST":
            return ChannelResponse(status=405, headers={"allow": "POST"})
        try:
            raw = msgspec.json.decode(base64.b64decode(request.body_base64))
        except (ValueError, msgspec.DecodeError):
            return ChannelResponse(status=400)
        if not isinstance(raw, dict) or not isinstance(raw.get("update_id"), int):
            return ChannelResponse(status=400)
        for draft in read_update(raw, self._account):
            await self._deliver(draft, msgspec.UNSET)
        return _OK
