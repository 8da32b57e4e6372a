"""Markdown as DingTalk reads it: single ends of lines are kept, and what would be taken for a mark is not."""

from __future__ import annotations

import re

from hostler_sdk.channels import ChannelMessage
from hostler_sdk.channels.markup import PLAIN, Marks, render

MAX_TITLE = 40
"""Characters of a title, which is seen in the list of chats."""
_FENCE = "```"
_MARK = re.compile(r"([\\`*_\[\]<~])")
_FIRST = re.compile(r"^(\s*)(?:([#>+=-])|(\d{1,9})([.)]))", re.MULTILINE)


def escaped(text: str) -> str:
    """Return a text in which nothing is a mark."""
    return _FIRST.sub(_escaped_first, _MARK.sub(r"\\\1", text))


def _escaped_first(found: re.Match[str]) -> str:
    space, mark, number, stop = found.groups()
    return f"{space}\\{mark}" if mark else f"{space}{number}\\{stop}"


def _around(mark: str, text: str) -> str:
    """Put a mark around each line of a text, beside its spaces, as it is no mark otherwise."""
    lines = []
    for line in text.split("\n"):
        bare = line.strip()
        lines.append(line.replace(bare, f"{mark}{bare}{mark}", 1) if bare else line)
    return "\n".join(lines)


def _code(text: str) -> str:
    mark = _longer("`", text)
    space = " " if len(mark) > 1 else ""
    return f"{mark}{space}{text}{space}{mark}"


def _longer(mark: str, text: str) -> str:
    """Return a row of backticks that is not in a text."""
    while mark in text:
        mark += "`"
    return mark


def _code_block(code: str, language: str) -> str:
    fence = _longer(_FENCE, code)
    name = language if re.fullmatch(r"[\w+#.-]{1,30}", language) else ""
    return f"{fence}{name}\n{code}\n{fence}"


def _link(text: str, url: str) -> str:
    safe = url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")
    return f"[{text}]({safe})"


def _quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


_WORDS = Marks(
    escape=escaped,
    strong=lambda text: _around("**", text),
    emphasis=lambda text: _around("*", text),
    strike=lambda text: text,  # not known to all of DingTalk's programs
    code=lambda text: _code(_unescaped(text)),
    link=_link,
    code_block=lambda code, language: _code_block(_unescaped(code), language),
    quote=_quote,
)


def _unescaped(text: str) -> str:
    """Take back what `escaped` did: nothing is a mark in code."""
    return re.sub(r"\\([\\`*_\[\]<~#>+=.)-])", r"\1", text)


def markdown_of(message: ChannelMessage) -> str:
    """Return a message's text as Markdown of DingTalk."""
    text = escaped(message.text) if message.plain else render(message.text, _WORDS)
    return _broken(text if text.strip() else escaped(message.text))


def _broken(text: str) -> str:
    """Put two spaces at the ends of lines outside of code: without, DingTalk joins the lines."""
    lines, fence = [], ""
    for line in text.split("\n"):
        bare = line.lstrip("> ")
        if fence:
            fence = "" if bare.strip() == fence else fence
            lines.append(line)
        elif bare.startswith(_FENCE):
            fence = bare[: len(bare) - len(bare.lstrip("`"))]
            lines.append(line)
        else:
            lines.append(f"{line}  " if line.strip() else line)
    return "\n".join(lines).strip()


def title_of(message: ChannelMessage) -> str:
    """Return the beginning of a message without marks."""
    plain = message.text if message.plain else render(message.text, PLAIN)
    line = next((one.strip() for one in plain.split("\n") if one.strip()), "…")
    return line if len(line) <= MAX_TITLE else f"{line[: MAX_TITLE - 1]}…"
