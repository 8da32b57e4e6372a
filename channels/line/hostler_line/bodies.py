"""What a message becomes on LINE: text without marks, and a bubble with its buttons."""

from __future__ import annotations

from typing import Any

from hostler_line.channel import MAX_MESSAGE
from hostler_sdk.channels import Button, ChannelMessage, NotSent
from hostler_sdk.channels.markup import PLAIN
from hostler_sdk.channels.parts import render_parts

MAX_TEXTS = 4
"""Beside the bubble: LINE takes five message objects together."""
MAX_LABEL = 20
"""Of a button; a longer one is written in full above it."""
MAX_BUTTONS = 30
"""In one bubble, which may have 30 KB."""
MAX_LONG_LABEL = 300
MAX_ALT = 400
"""Of the text that notifications show in place of a bubble."""
_STYLES = {"primary": "primary", "danger": "primary", "default": "secondary"}
_DANGER = "#C62828"


def bodies_of(message: ChannelMessage, quote_token: str | None) -> list[dict[str, Any]]:
    """Return the message objects of a message, which LINE takes all or none. Raises NotSent."""
    if message.attachments:
        names = ", ".join(one.name or one.mime_type or "file" for one in message.attachments)
        text = "bots cannot upload files to LINE; it shows only what is at a public https:// address"
        raise NotSent(f"{names}: {text}", final=True)
    found: list[dict[str, Any]] = []
    for text in _texts(message):
        quote = {} if quote_token is None or found else {"quoteToken": quote_token}
        found.append({"type": "text", "text": text, **quote})
    if buttons := [button for row in message.buttons for button in row]:
        found.append(_bubble(buttons))
    if not found:
        raise NotSent("the message is empty", final=True)
    return found


def without_quotes(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return message objects that quote nothing."""
    return [{name: value for name, value in one.items() if name != "quoteToken"} for one in bodies]


def _texts(message: ChannelMessage) -> list[str]:
    """Return a text as it is shown, in as many parts as it needs: a table may be longer than its source."""
    if not message.text.strip():
        return []
    texts = render_parts(message.text, PLAIN, MAX_MESSAGE, "utf16", plain=message.plain)
    texts = texts or [message.text]
    if len(texts) > MAX_TEXTS:
        text = f"the text is too long: LINE takes {MAX_TEXTS} of {MAX_MESSAGE:,} UTF-16 code units together"
        raise NotSent(text, final=True)
    return texts


def _bubble(buttons: list[Button]) -> dict[str, Any]:
    if len(buttons) > MAX_BUTTONS:
        raise NotSent(f"the message has {len(buttons)} buttons; at most {MAX_BUTTONS} are sent", final=True)
    contents: list[dict[str, Any]] = []
    for button in buttons:
        if len(button.label) > MAX_LABEL:
            label = _cut(button.label, MAX_LONG_LABEL)
            contents.append({"type": "text", "text": label, "wrap": True, "size": "sm"})
        contents.append(_button(button))
    return {
        "type": "flex",
        "altText": _cut(" / ".join(button.label.strip() or "…" for button in buttons), MAX_ALT),
        "contents": {
            "type": "bubble",
            "body": {"type": "box", "layout": "vertical", "spacing": "md", "contents": contents},
        },
    }


def _button(button: Button) -> dict[str, Any]:
    label = _cut(button.label.strip() or "…", MAX_LABEL)
    color = {"color": _DANGER} if button.style == "danger" else {}
    action = {"type": "postback", "label": label, "data": button.value, "displayText": label}
    return {"type": "button", "style": _STYLES[button.style], "height": "sm", "action": action, **color}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
