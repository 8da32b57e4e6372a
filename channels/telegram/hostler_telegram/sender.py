"""Messages to Telegram: text as HTML, else as it is written; files by their kind; buttons below."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiogram import methods
from aiogram.methods.base import TelegramMethod
from aiogram.types import (
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
)

from hostler_sdk.channels import (
    Button,
    Channel,
    ChannelMessage,
    ChannelSender,
    ChannelTarget,
    NotSent,
)
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.outgoing import FileLimits, OutgoingFile, read_files
from hostler_sdk.channels.sent_parts import Part, PartSender, ids_of, joined_ids
from hostler_telegram.bot_api import BotApi
from hostler_telegram.texts import NOTHING, Written, as_written, written

MAX_CAPTION = 1024
"""Text of a file, in UTF-16 code units without the marks."""
MAX_PHOTO_BYTES = 10 * MIB
FILE_LIMITS = FileLimits(files=10, bytes_each=50 * MIB, bytes_all=100 * MIB, empty=False)
"""What the Bot API takes of each file; together they are in memory while a message is sent."""
MAX_CALLBACK_BYTES = 64

_T = TypeVar("_T")
_PARTICULAR = ("PHOTO_", "IMAGE_", "VOICE_", "VIDEO_", "wrong file")
"""In the errors of files that Telegram cannot show."""
_STYLES = {"primary": "primary", "danger": "danger"}

logger = logging.getLogger(__name__)


def number_of(id_: Any, what: str) -> int:
    """Return an id of Telegram as a number. Raises NotSent."""
    try:
        return int(id_)
    except (TypeError, ValueError):
        raise NotSent(f"{id_!r:.80} is no id of a {what} of Telegram", final=True) from None


def chat_id_of(id_: Any) -> int | str:
    """Return a chat's id: a number, or the name of a public one. Raises NotSent."""
    if isinstance(id_, str) and re.fullmatch(r"@\w{3,64}", id_):
        return id_
    return number_of(id_, "chat")


def keyboard(rows: list[list[Button]]) -> InlineKeyboardMarkup | None:
    """Return buttons below a message. Raises NotSent."""
    if not any(rows):
        return None
    return InlineKeyboardMarkup(inline_keyboard=[[_button(one) for one in row] for row in rows if row])


def _button(button: Button) -> InlineKeyboardButton:
    if len(button.value.encode()) > MAX_CALLBACK_BYTES:
        text = f"the value of button {button.label!r:.80} has over {MAX_CALLBACK_BYTES} bytes of UTF-8"
        raise NotSent(text, final=True)
    return InlineKeyboardButton(
        text=button.label, callback_data=button.value, style=_STYLES.get(button.style)
    )


def is_refused_markup(error: NotSent) -> bool:
    """Whether Telegram refused the marks of a text, or the length that they give it."""
    told = error.message.lower()
    return error.final and any(
        text in told for text in ("can't parse entities", "message is too long", "caption is too long")
    )


class Sender(ChannelSender):
    """Sends and edits messages of one bot."""

    def __init__(self, api: BotApi, channel: Channel, *, previews: bool) -> None:
        self._api = api
        self._channel = channel
        self._preview = LinkPreviewOptions(is_disabled=not previews)
        self._parts = PartSender()

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message in as many parts as it needs, and return the ids of its text, else of a file.

        Parts that were sent before another one failed are not sent again in this process. Raises NotSent,
        UnclearError.
        """
        chat_id = chat_id_of(target.chat_id)
        thread_id = None if target.thread_id is None else number_of(target.thread_id, "topic")
        reply = None
        if target.reply_to is not None:
            number = number_of(ids_of(target.reply_to)[0], "message")
            reply = ReplyParameters(message_id=number, allow_sending_without_reply=True)
        texts, buttons = written(message), keyboard(message.buttons)
        files = await read_files(self._channel, message.attachments, FILE_LIMITS)
        if not texts and not files:
            raise NotSent("the message is empty", final=True)
        caption = NOTHING
        if len(files) == len(texts) == 1 and texts[0].length <= MAX_CAPTION:
            caption = texts.pop()
        parts = []
        for number in range(len(texts) + len(files)):
            place = {
                "chat_id": chat_id,
                "message_thread_id": thread_id,
                "reply_parameters": reply if number == 0 else None,
                "reply_markup": buttons if number == max(0, len(texts) - 1) else None,
            }
            if number < len(texts):
                parts.append(self._text_part(place, texts[number]))
            else:
                parts.append(self._file_part(place, files[number - len(texts)], caption))
        sent = await self._parts.send(key, parts, lambda id_: self._delete(chat_id, int(id_)))
        return joined_ids(sent[: len(texts) or 1])

    def _text_part(self, place: dict[str, Any], text: Written) -> Part:
        def change(message_id: str) -> Awaitable[None]:
            there = {"chat_id": place["chat_id"], "message_id": int(message_id)}
            return self._edit({**there, "reply_markup": place["reply_markup"]}, text)

        return Part((text, place["reply_markup"]), lambda: self._text(place, text), change)

    def _file_part(self, place: dict[str, Any], file: OutgoingFile, text: Written) -> Part:
        return Part(file.ref, lambda: self._file(place, file, text))

    async def _text(self, place: dict[str, Any], text: Written) -> str:
        def method(body: str, mode: str | None) -> TelegramMethod[Message]:
            return methods.SendMessage(
                **place, text=body, parse_mode=mode, link_preview_options=self._preview
            )

        return await self._with_marks(text, method, self._api.sent)

    async def _file(self, place: dict[str, Any], outgoing: OutgoingFile, text: Written) -> str:
        kind = kind_of(outgoing.mime_type, len(outgoing.content))

        def method(body: str, mode: str | None) -> TelegramMethod[Message]:
            file = BufferedInputFile(outgoing.content, outgoing.name)
            return _FILE_METHODS[kind](**place, **{kind: file}, caption=body or None, parse_mode=mode)

        try:
            return await self._with_marks(text, method, self._api.sent)
        except NotSent as error:
            # Telegram is particular about photos, voice and the like: as a document it takes anything
            refused = error.final and any(told in error.message for told in _PARTICULAR)
            if not refused or kind == "document":
                raise
            kind = "document"
            return await self._with_marks(text, method, self._api.sent)

    async def _with_marks(
        self,
        text: Written,
        method: Callable[[str, str | None], TelegramMethod[Any]],
        call: Callable[[TelegramMethod[Any]], Awaitable[_T]],
    ) -> _T:
        """Call a method with the text as HTML; where Telegram refuses that, as it is written."""
        if text.html is None:
            return await call(method(text.plain, None))
        try:
            return await call(method(text.html, "HTML"))
        except NotSent as error:
            if not is_refused_markup(error):
                raise
        return await call(method(text.plain, None))

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool = True
    ) -> None:
        """Replace text and buttons of a message; that nothing changes is no error.

        No part is added, since something else may have been said below: a text that needs more parts than the
        message has is shown as it is written. Parts that are not needed any more are deleted. Raises NotSent,
        UnclearError.
        """
        chat_id, buttons = chat_id_of(target.chat_id), keyboard(message.buttons)
        ids = [number_of(id_, "message") for id_ in ids_of(message_id)]
        if not message.text.strip():
            raise NotSent("a message cannot become empty", final=True)
        texts = written(message)
        if len(texts) > len(ids):
            texts = [as_written(message)]
        for number, (id_, text) in enumerate(zip(ids, texts, strict=False), 1):
            below = buttons if number == len(texts) else None
            await self._edit({"chat_id": chat_id, "message_id": id_, "reply_markup": below}, text)
        for id_ in ids[len(texts) :]:
            await self._delete(chat_id, id_)

    async def _edit(self, place: dict[str, Any], text: Written) -> None:
        def body(text: str, mode: str | None) -> TelegramMethod[Any]:
            return methods.EditMessageText(
                **place, text=text, parse_mode=mode, link_preview_options=self._preview
            )

        def caption(text: str, mode: str | None) -> TelegramMethod[Any]:
            return methods.EditMessageCaption(**place, caption=text, parse_mode=mode)

        try:
            try:
                await self._with_marks(text, body, self._api.done)
            except NotSent as error:
                if "there is no text in the message to edit" not in error.message.lower():
                    raise
                await self._with_marks(text, caption, self._api.done)
        except NotSent as error:
            if "message is not modified" not in error.message:
                raise

    async def _delete(self, chat_id: int | str, message_id: int) -> None:
        """Delete a part whose text is in an earlier one now; one that cannot be deleted stays."""
        try:
            await self._api.done(methods.DeleteMessage(chat_id=chat_id, message_id=message_id))
        except NotSent as error:
            if not error.final:
                raise
            logger.warning("a part of a message that is not needed any more stays: %s", error.message)


_FILE_METHODS: dict[str, Callable[..., TelegramMethod[Message]]] = {
    "animation": methods.SendAnimation,
    "audio": methods.SendAudio,
    "document": methods.SendDocument,
    "photo": methods.SendPhoto,
    "video": methods.SendVideo,
    "voice": methods.SendVoice,
}
_KINDS = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "photo",
    "image/gif": "animation",
    "video/mp4": "video",
    "audio/mpeg": "audio",
    "audio/mp4": "audio",
    "audio/x-m4a": "audio",
    "audio/ogg": "voice",
}


def kind_of(mime_type: str, size: int) -> str:
    """Return as what a file is sent, so that people see or hear it in the chat."""
    kind = _KINDS.get(mime_type, "document")
    return "document" if kind == "photo" and size > MAX_PHOTO_BYTES else kind
