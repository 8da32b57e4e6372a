"""Errors of the Bot API, and texts as Telegram checks them."""

from __future__ import annotations

import re
from typing import Any

_TAGS = {"b", "i", "s", "code", "pre", "a", "blockquote"}
_PARTS = re.compile(r"<(/?)([a-z]*)([^<>]*)>")


class Refusal(Exception):
    """An error of the Bot API."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.body["parameters"] = parameters


def checked(text: str, params: dict[str, Any], most: int) -> str:
    """Check a text as Telegram does; return it as it was sent."""
    plain = text
    if params.get("parse_mode") == "HTML":
        _check_tags(text)
        plain = re.sub(r"<[^<>]*>", "", text)
        for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
            plain = plain.replace(entity, char)
    else:
        assert "parse_mode" not in params, params
    if len(plain.encode("utf-16-le")) // 2 > most:
        what = "message is too long" if most == 4096 else "message caption is too long"
        raise Refusal(400, f"Bad Request: {what}")
    if not plain.strip():
        raise Refusal(400, "Bad Request: message text is empty")
    return text


def _check_tags(text: str) -> None:
    opened: list[str] = []
    for match in _PARTS.finditer(text):
        closing, tag, _ = match.groups()
        if tag not in _TAGS:
            told = f'Unsupported start tag "{tag}" at byte offset {match.start()}'
            raise Refusal(400, f"Bad Request: can't parse entities: {told}")
        if not closing:
            opened.append(tag)
        elif not opened or opened.pop() != tag:
            raise Refusal(400, "Bad Request: can't parse entities: Unexpected end tag at byte offset 0")
    if opened or "<" in _PARTS.sub("", text):
        raise Refusal(
            400, "Bad Request: can't parse entities: Can't find end tag corresponding to start tag b"
        )
