"""Texts as Telegram takes them: HTML in parts that fit as Telegram counts them, or as they are written."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from hostler_sdk.channels import ChannelMessage
from hostler_sdk.channels.markup import CHAT_HTML, plain_link, utf16_length
from hostler_sdk.channels.parts import render_parts
from hostler_telegram.channel import MAX_MESSAGE

_TAG = re.compile(r"<[^>]*>")
_LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Written:
    """A text in its forms. `html` is None if it is sent as it is written."""

    plain: str
    html: str | None

    @property
    def length(self) -> int:
        """Its length as Telegram counts it."""
        return utf16_length(self.plain) if self.html is None else parsed_length(self.html)


NOTHING = Written("", None)


def parsed_length(text: str) -> int:
    """Return the length of HTML as Telegram counts it: without tags, and each entity as its character."""
    return utf16_length(_characters(text))


def written(message: ChannelMessage) -> list[Written]:
    """Return a message's text as HTML, in as many parts as it needs: a table may be longer than written."""
    if not message.text.strip():
        return []
    if message.plain:
        return [as_written(message)]
    parts = render_parts(message.text, CHAT_HTML, MAX_MESSAGE, parsed_length)
    if len(parts) < 2:
        return [Written(message.text, *parts)] if parts else [as_written(message)]
    return [Written(_without_marks(part), part) for part in parts]


def as_written(message: ChannelMessage) -> Written:
    """Return a message's text without HTML, which is no longer than the host splits it."""
    return Written(message.text, None)


def _characters(text: str) -> str:
    return html.unescape(_TAG.sub("", text))


def _without_marks(text: str) -> str:
    """Return what HTML says, with the addresses of its links if there is room for them."""
    whole = _characters(_LINK.sub(lambda link: plain_link(link[2], link[1]), text))
    return whole if utf16_length(whole) <= MAX_MESSAGE else _characters(text)
