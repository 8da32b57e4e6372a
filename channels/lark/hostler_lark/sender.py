"""Messages to Lark: cards and files, each under a `uuid` that Lark takes once within an hour."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import OrderedDict
from typing import Any

from hostler_lark.api import CARD_REFUSED, Api, RefusedError
from hostler_lark.cards import card_of
from hostler_lark.names import Names, text_of
from hostler_lark.uploads import Part, Uploads
from hostler_sdk.channels import (
    ChannelFound,
    ChannelMessage,
    ChannelSender,
    ChannelTarget,
    NotSent,
    UnclearError,
)

UUID_SECONDS = 3_600.0
"""How long Lark takes a `uuid` once."""
SURE_SECONDS = 3_000.0
"""How long after the first try a message is sent again under its `uuid`."""
LATEST_SECONDS = 3_480.0
WAIT_SECONDS = 10.0
"""The longest wait between two parts of a message, and how often it is waited."""
WAITS = 3
MAX_SURE = 2_000
_GONE = {230011, 230110, 230001}
"""Codes of a message to be quoted that was taken back, deleted, or is none."""
_ID_TYPES = {"oc_": "chat_id", "ou_": "open_id", "on_": "union_id"}
_ID = re.compile(r"[\w@.+-]{1,200}", re.ASCII)

logger = logging.getLogger(__name__)


def id_of(id_: Any, what: str, prefix: str) -> str:
    """Return an id of Lark. Raises NotSent."""
    if not isinstance(id_, str) or not id_.startswith(prefix) or not _ID.fullmatch(id_):
        raise NotSent(f"{id_!r:.80} is no id of a {what} of Lark, which begins with {prefix}", final=True)
    return id_


def receiver_of(chat_id: Any) -> tuple[str, str]:
    """Return the id of a chat or a person, and what kind of id it is. Raises NotSent."""
    kind = _ID_TYPES.get(chat_id[:3]) if isinstance(chat_id, str) else None
    if kind is None or not _ID.fullmatch(chat_id):
        text = f"{chat_id!r:.80} is no id of a chat of Lark, like oc_..., nor of a person, like ou_..."
        raise NotSent(text, final=True)
    return chat_id, kind


def uuid_of(key: str, part: int = 0) -> str:
    """Return the `uuid` of a part of a message: at most 50 characters."""
    return hashlib.sha256(f"{key}/{part}".encode()).hexdigest()[:40]


class Sender(ChannelSender):
    """Sends and edits messages of one app. `quote`: answers in groups quote what they answer."""

    def __init__(self, api: Api, names: Names, uploads: Uploads, *, quote: bool) -> None:
        self._api = api
        self._names = names
        self._uploads = uploads
        self._quote = quote
        self._first: OrderedDict[str, float] = OrderedDict()
        """When messages were first sent of which `find` said that they can be sent again."""

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message: its text and buttons as a card, and each file. Raises NotSent, UnclearError."""
        if (since := self._first.get(key)) is not None and time.time() - since > LATEST_SECONDS:
            raise UnclearError("it may have been sent over an hour ago: Lark would take it once more")
        receiver_of(target.chat_id)
        card = card_of(message) if message.text.strip() or message.buttons else None
        parts = [] if card is None else [Part("interactive", card)]
        parts += await self._uploads.upload(message.attachments)
        if not parts:
            raise NotSent("the message is empty", final=True)
        first: str | None = None
        for number, part in enumerate(parts):
            sent = await self._part(target, message, part, key, number)
            first = first or sent
        return first

    async def _part(
        self, target: ChannelTarget, message: ChannelMessage, part: Part, key: str, number: int
    ) -> str | None:
        """Send a part. Once one is sent, what passes is waited for: the host must not take the whole for not
        sent, and send it again when its `uuid` is forgotten."""
        for tries in range(WAITS if number else 1):
            try:
                return await self._one(target, message, part, uuid_of(key, number), quotes=number == 0)
            except NotSent as error:
                if not number:
                    raise
                if error.final:
                    text = f"a part of the message was sent, and the rest refused: {error.message}"
                    raise NotSent(text, final=True) from None
                if tries == WAITS - 1:
                    break
                await asyncio.sleep(min(error.retry_after or 1.0, WAIT_SECONDS))
        raise UnclearError("a part of the message was sent; the rest is sent again with it, under its uuid")

    async def _one(
        self, target: ChannelTarget, message: ChannelMessage, part: Part, uuid: str, *, quotes: bool
    ) -> str | None:
        try:
            return await self._placed(target, part, uuid, quotes=quotes)
        except RefusedError as error:
            if error.code != CARD_REFUSED or not error.final or part.kind != "interactive":
                raise
            logger.warning("a card was refused, and is sent without marks: %s", error.message)
        return await self._placed(target, Part(part.kind, card_of(message, plain=True)), uuid, quotes=quotes)

    async def _placed(self, target: ChannelTarget, part: Part, uuid: str, *, quotes: bool) -> str | None:
        """Send to a chat, to a topic, or as an answer that quotes a message."""
        body = {"msg_type": part.kind, "content": part.content, "uuid": uuid}
        if target.thread_id is not None:
            root = id_of(target.thread_id, "message", "om_")
            return await self._replied(target, root, body | {"reply_in_thread": True})
        if quotes and target.reply_to is not None and await self._may_quote(target.chat_id):
            try:
                return await self._replied(target, id_of(target.reply_to, "message", "om_"), body)
            except RefusedError as error:
                if error.code not in _GONE:
                    raise
        receiver, kind = receiver_of(target.chat_id)
        path = "/open-apis/im/v1/messages"
        sent = await self._api.data("POST", path, {"receive_id_type": kind}, {"receive_id": receiver, **body})
        return self._sent(sent, target)

    async def _replied(self, target: ChannelTarget, message_id: str, body: dict[str, Any]) -> str | None:
        path = "/open-apis/im/v1/messages/:message_id/reply"
        return self._sent(await self._api.data("POST", path, None, body, message_id=message_id), target)

    def _sent(self, sent: dict[str, Any], target: ChannelTarget) -> str:
        message_id = text_of(sent.get("message_id"))
        if message_id is None:
            raise UnclearError("Lark does not say which message it has sent")
        self._names.wrote(message_id, text_of(sent.get("chat_id")) or target.chat_id, target.thread_id)
        return message_id

    async def _may_quote(self, chat_id: str) -> bool:
        """Whether an answer quotes: in groups, where it is not clear otherwise what it answers."""
        if not self._quote or not chat_id.startswith("oc_"):
            return False
        return (await self._names.chat(chat_id)).kind == "group"

    # -- doubt ------------------------------------------------------------------------------------

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Say that a message may be sent again, as long as Lark takes its `uuid` once; later nobody knows.

        History does not have the `uuid` of messages, and tells what cards say in another form.
        """
        if not 0 <= time.time() - since < SURE_SECONDS:
            return ChannelFound(found=None)
        self._first[key] = since
        while len(self._first) > MAX_SURE:
            self._first.popitem(last=False)
        return ChannelFound(found=False)

    # -- edits ------------------------------------------------------------------------------------

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Replace text and buttons of a card. Raises NotSent, UnclearError."""
        if not message.text.strip():
            raise NotSent("a message cannot become empty", final=True)
        id_of(message_id, "message", "om_")
        try:
            await self._patch(message_id, card_of(message))
        except RefusedError as error:
            if error.code != CARD_REFUSED or not error.final:
                raise
            logger.warning("a card was refused, and is written without marks: %s", error.message)
            await self._patch(message_id, card_of(message, plain=True))

    async def _patch(self, message_id: str, card: str) -> None:
        path = "/open-apis/im/v1/messages/:message_id"
        await self._api.call("PATCH", path, None, {"content": card}, message_id=message_id)
