"""What a message of WeCom consists of: text or its subset of Markdown, and cards with buttons."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from hostler_sdk.channels import Button, ChannelMessage
from hostler_sdk.channels.markup import PLAIN, Marks, render
from hostler_sdk.channels.parts import render_parts

MAX_BYTES = 2_048
"""Of a text and of Markdown, in UTF-8; WeCom cuts off what is longer, and says nothing."""
KEY_CHARS = 24
"""Of the invisible key at the end of a text: 24 bits, 72 bytes."""
MAX_CARD_TEXT = 160
MAX_CARD_TITLE = 36
MAX_CARD_BUTTONS = 6
MAX_LABEL = 30
"""Characters that WeCom advises for a card, and its most buttons."""
_ZERO_WIDTH = ("\u200b", "\u200c")
_NO_MARKDOWN = "\0"
"""Put into what cannot be said in WeCom's Markdown; it is never sent."""
_MARKS = re.compile(
    r"\*[^\s*]|[^\s*]\*|`|\]\(|<\s*/?\s*[a-zA-Z]|(?:^|\n)[ \t]*(?:#{1,6} |>|-{3})|(?<!\w)_[^\s_]|<@", re.ASCII
)
"""What would be a mark in a text that is to be shown as it is: there is no way to escape it."""
_TAG = re.compile(r"<(?=\s*/?\s*a[\s>])", re.IGNORECASE)
_STYLES = {"default": 2, "primary": 1, "danger": 3}


def _literal(text: str) -> str:
    return text + _NO_MARKDOWN if _MARKS.search(text) else text


def _code(text: str) -> str:
    return _NO_MARKDOWN if "\n" in text else f"`{text}`"


def _link(text: str, url: str) -> str:
    safe = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    return f"[{text}]({safe})" if "]" not in text else _NO_MARKDOWN


_WECOM = Marks(
    escape=_literal,
    strong=lambda text: f"**{text}**" if text.strip() and "**" not in text else text,
    emphasis=lambda text: text,
    strike=lambda text: text,
    code=_code,
    link=_link,
    code_block=lambda *_: _NO_MARKDOWN,  # there are none, and lines would lose their indentation
    quote=lambda text: "\n".join("> " + line for line in text.split("\n")),
    quotes_nest=False,
)
"""The subset that messages of applications know: bold, links, code within a line, quotes."""


def text_bodies(message: ChannelMessage, *, markdown: bool, key: str | None) -> list[dict[str, Any]]:
    """Return a message's text as one body, or several where its marks make it longer than WeCom takes.

    `key`: makes each body differ from all others, invisibly, so that WeCom can tell it from its repetition.
    """
    most = MAX_BYTES - (0 if key is None else 3 * KEY_CHARS)
    if markdown and not message.plain:
        parts = render_parts(message.text, _WECOM, most, "bytes")
        if parts and not any(_NO_MARKDOWN in part for part in parts):
            return _bodies("markdown", parts, key)
    parts = [message.text] if message.plain else render_parts(message.text, PLAIN, most, "bytes")
    pieces = [piece for part in parts for piece in pieces_of(without_links(part), most)]
    return _bodies("text", pieces, key)


def _bodies(kind: str, texts: list[str], key: str | None) -> list[dict[str, Any]]:
    return [
        {"msgtype": kind, kind: {"content": text + _hidden(key, number)}} for number, text in enumerate(texts)
    ]


def plain_text(message: ChannelMessage) -> str:
    """Return a message's text without marks."""
    return message.text if message.plain else render(message.text, PLAIN)


def without_links(text: str) -> str:
    """Break the tags that WeCom makes links of in plain texts, so that nothing of them is hidden."""
    return _TAG.sub("<\u200b", text)


def pieces_of(text: str, most: int) -> Iterator[str]:
    """Cut a text into pieces of at most so many bytes: at the ends of lines, else between characters."""
    while len(_bytes(text)) > most:
        piece = _bytes(text)[:most].decode("utf-8", "ignore")
        line_end = piece.rfind("\n")
        piece = piece if line_end <= 0 else piece[:line_end]
        yield piece
        text = text[len(piece) :].removeprefix("\n")
    if text.strip():
        yield text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _hidden(key: str | None, number: int) -> str:
    """Return a key as characters without width."""
    if key is None:
        return ""
    bits = int.from_bytes(hashlib.sha256(f"{key} {number}".encode()).digest()[:3], "big")
    return "".join(_ZERO_WIDTH[bits >> at & 1] for at in range(KEY_CHARS))


def card_bodies(buttons: list[Button], key: str, title: str, text: str) -> list[dict[str, Any]]:
    """Return cards with the buttons, six on each. `key` names them: WeCom takes the id of a task once."""
    task = hashlib.sha256(key.encode()).hexdigest()[:40]
    groups = [buttons[at : at + MAX_CARD_BUTTONS] for at in range(0, len(buttons), MAX_CARD_BUTTONS)]
    bodies = []
    for number, group in enumerate(groups):
        head = title if number == 0 or not title else clipped(f"{title} ({number + 1})", MAX_CARD_TITLE)
        card: dict[str, Any] = {
            "card_type": "button_interaction",
            "main_title": {"title": head or "…"},
            "task_id": f"{task}-{number}",
            "button_list": [
                {
                    "text": clipped(one.label, MAX_LABEL) or "…",
                    "style": _STYLES[one.style],
                    "key": one.value,
                }
                for one in group
            ],
        }
        if text and number == 0:
            card["sub_title_text"] = text
        bodies.append({"msgtype": "template_card", "template_card": card})
    return bodies


def clipped(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
