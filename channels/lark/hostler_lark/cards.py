"""Cards: texts with or without marks, and buttons. Only cards can be changed as often as needed."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from hostler_sdk.channels import Button, ChannelMessage, NotSent
from hostler_sdk.channels.markup import PLAIN, Marks, render

MAX_CARD_BYTES = 28_000
"""Of a card as JSON; Lark takes 30 KB with what is around it."""
MAX_BUTTONS = 50
"""Of a card, which may have 200 parts: a button is three."""
MAX_LABEL = 100
MAX_SUMMARY = 100
"""Of what notifications show of a card."""
VALUE = "hostler"
"""The field of a button's value that has ours."""
_SPECIAL = re.compile(
    r"""
    [<>*_~`\[\]\\#$]                     # marks, and tags such as <at>
    | &(?=\#?\w+;)                       # what would be read as a character's name
    | !(?=\[|$)                          # an image, also of a link that follows
    | (?m:^[-+=](?=[\s=-]|$))            # lists and underlined headings
    | :(?=\w+:)                          # emoji by their names
    """,
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that nobody sees, and which take six bytes each."""
_PEOPLE = re.compile(r"<\s*/?\s*(at|person)\b", re.IGNORECASE)
_IN_URL = str.maketrans({" ": "%20", "(": "%28", ")": "%29", "<": "%3C", ">": "%3E", '"': "%22", "\\": "%5C"})
_STYLES = {"primary": "primary", "danger": "danger"}


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def _around(mark: str) -> Callable[[str], str]:
    def marked(text: str) -> str:
        inner = text.strip()
        if not inner:
            return text
        before, _, after = text.partition(inner)
        return f"{before}{mark}{inner}{mark}{after}"

    return marked


def _code(escaped: str) -> str:
    code = html.unescape(escaped)
    return escaped if "`" in code or not code.strip() else f"`{code}`"


def _code_block(escaped: str, language: str) -> str:
    code, fence = html.unescape(escaped), "```"
    while fence in code:
        fence += "`"
    return f"{fence}{re.sub(r'[^A-Za-z0-9+#.-]', '', language)}\n{code}\n{fence}"


def _link(text: str, url: str) -> str:
    if not url.startswith(("http://", "https://")):
        return f"{text} ({_escape(url)})"
    return f"[{text}]({url.translate(_IN_URL)})"


LARK = Marks(
    escape=_escape,
    strong=_around("**"),
    emphasis=_around("*"),
    strike=_around("~~"),
    code=_code,
    link=_link,
    code_block=_code_block,
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
)
"""Markdown as the cards of Lark read it; special characters are written by their numbers."""


def card_of(message: ChannelMessage, *, plain: bool = False) -> str:
    """Return the card of a message, as JSON. `plain`: without marks. Raises NotSent if it is too large."""
    message = msgspec.structs.replace(message, text=_CONTROL.sub("", message.text))
    marked = "" if message.plain or plain else render(message.text, LARK)
    # in code, too, nobody is notified: it is not said that Lark reads no tags there
    if not marked.strip() or _PEOPLE.search(marked):
        marked = ""
    card = _card(message, marked)
    if len(card.encode()) > MAX_CARD_BYTES and marked:
        card = _card(message, "")
    if len(card.encode()) > MAX_CARD_BYTES:
        text = f"the message has {len(card.encode()):,} bytes as a card of Lark; {MAX_CARD_BYTES:,} are taken"
        raise NotSent(text, final=True)
    return card


def _card(message: ChannelMessage, marked: str) -> str:
    shown = message.text if message.plain else render(message.text, PLAIN) or message.text
    text: dict[str, Any]
    if marked:
        text = {"tag": "markdown", "content": marked}
    else:
        text = {"tag": "div", "text": {"tag": "plain_text", "content": message.text}}
    summary = " ".join(shown[: 4 * MAX_SUMMARY].split())[:MAX_SUMMARY]
    card = {
        "schema": "2.0",
        "config": {"update_multi": True, "summary": {"content": summary}},
        "body": {"elements": [text, *_rows(message.buttons)]},
    }
    return json.dumps(card, ensure_ascii=False, separators=(",", ":"))


def _rows(buttons: list[list[Button]]) -> list[dict[str, Any]]:
    rows = [row for row in buttons if row]
    if sum(len(row) for row in rows) > MAX_BUTTONS:
        raise NotSent(f"the message has more than {MAX_BUTTONS} buttons, the most of a card", final=True)
    return [
        {
            "tag": "column_set",
            "flex_mode": "flow",
            "columns": [{"tag": "column", "width": "auto", "elements": [_button(one)]} for one in row],
        }
        for row in rows
    ]


def _button(button: Button) -> dict[str, Any]:
    label = button.label if len(button.label) <= MAX_LABEL else button.label[: MAX_LABEL - 1] + "…"
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": label or "…"},
        "type": _STYLES.get(button.style, "default"),
        "behaviors": [{"type": "callback", "value": {VALUE: button.value}}],
    }
