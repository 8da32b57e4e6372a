"""Markdown as Discord reads it: its own marks, and everything else escaped."""

from __future__ import annotations

import re
from collections.abc import Callable

from hostler_discord.channel import MAX_MESSAGE
from hostler_sdk.channels import ChannelMessage
from hostler_sdk.channels.markup import Marks
from hostler_sdk.channels.parts import render_parts

_SPECIAL = re.compile(r"(<(?:@[!&]?|\#|a?:\w{2,32}:|t:)\d+(?::\w)?>)|[\\*_~`|<>\[\]]|^[#+-]", re.MULTILINE)
"""What may be a mark, within a line or at its begin; first mentions, emoji and times, which stay."""
_ESCAPED = re.compile(r"\\([\\*_~`|<>\[\]#+-])")
_LANGUAGE = re.compile(r"[\w+#.-]{1,20}", re.ASCII)
_WEB = ("http://", "https://")


def escape(text: str) -> str:
    """Return a text that Discord shows as it is written, with mentions, emoji and times in its own form."""
    return _SPECIAL.sub(lambda match: match[1] or "\\" + match[0], text)


def unescape(text: str) -> str:
    """Return what was escaped: in code Discord shows backslashes as they are."""
    return _ESCAPED.sub(lambda match: match[1], text)


def _around(mark: str) -> Callable[[str], str]:
    return lambda text: f"{mark}{text}{mark}" if text else ""


def _code(text: str) -> str:
    code = unescape(text)
    if "`" in code:
        return text if "``" in code else f"`` {code} ``"
    return f"`{code}`" if code else ""


def _code_block(text: str, language: str) -> str:
    code = unescape(text).replace("```", "``\N{ZERO WIDTH SPACE}`")  # it would end the block
    word = language if _LANGUAGE.fullmatch(language) else ""
    return f"```{word}\n{code}\n```"


def _link(text: str, url: str) -> str:
    """Return a link without a preview; Discord makes links of addresses of the web alone."""
    address = url.replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")
    if not url.startswith(_WEB):
        plain, bare = unescape(text), url.removeprefix("mailto:")
        return text if plain in {url, bare} else f"{text} ({escape(url)})"
    return f"<{address}>" if unescape(text) == url else f"[{text}](<{address}>)"


DISCORD = Marks(
    escape=escape,
    strong=_around("**"),
    emphasis=_around("*"),
    strike=_around("~~"),
    code=_code,
    link=_link,
    code_block=_code_block,
    quote=lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    quotes_nest=False,
)
"""The marks of Discord."""


def written(message: ChannelMessage) -> list[str]:
    """Return a message's text for Discord, in as many parts as it needs: marks make it longer."""
    if not message.text.strip():
        return []
    parts = render_parts(message.text, DISCORD, MAX_MESSAGE, plain=message.plain)
    return parts or [message.text]
