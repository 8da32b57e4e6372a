"""The script of widgets, with the entry of one in it, and the page at which a widget can be tried."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property, lru_cache
from html import escape
from pathlib import Path

import msgspec

from hostler.console.files import MEDIA_TYPES, ConsoleFile
from hostler.domain.widgets import Widget

FOLDER = Path(__file__).with_name("widget_script")
PARTS = ("texts", "markdown", "wire", "chat", "style", "asked", "view", "main")
"""The files that make up the script, in their order: it is one file for pages, and needs no build."""
_FRAME = """(() => {
"use strict";
const WIDGET = %b;
const SCRIPT = document.currentScript;
const HOST = new URL(SCRIPT.src).href.replace(/\\/widget\\/[^/]*$/, "");
const TOKENS = SCRIPT.dataset.tokens ?? "";
if (document.getElementById(`hostler-widget-${WIDGET.name}`) || !("adoptedStyleSheets" in document)) return;
%b})();
"""
TRY_PAGE_CSP = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'self'; "
    "connect-src 'self'; require-trusted-types-for 'script'"
)
"""As strict as a page can be: the widget needs no style, image or font of its own."""
_TYPES = re.compile(r"/\*\* .*?\*/ ?|/\*\*\n.*?\*/", re.DOTALL)
"""Comments that tell types: visitors are not sent them."""
_PAGE = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}</title>
<h1>{name}</h1>
<p>{text}</p>
<script src="{path}" async></script>
</html>
"""
_TEXTS = {
    "en": "This page shows the widget as other pages do.",
    "zh": "\u672c\u9875\u6309\u5176\u4ed6\u7f51\u9875\u7684\u65b9\u5f0f\u663e\u793a\u6b64\u7ec4\u4ef6\u3002",
}


class WidgetFile(ConsoleFile):
    """A file of a widget. `etag`: of its content."""

    @cached_property
    def etag(self) -> str:
        """What browsers ask with whether it has changed."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


class WidgetFiles:
    """The script of each widget, made when it is asked for, and the page at which it can be tried."""

    @staticmethod
    def script(widget: Widget) -> WidgetFile:
        """Return the script of a widget."""
        shown = {
            "name": widget.name,
            "title": widget.title,
            "greeting": widget.greeting,
            "colour": widget.colour,
            "languages": widget.languages,
            "files": widget.allow_files,
            "mib": widget.max_file_mib,
            "chars": widget.max_message_chars,
        }
        return _script(msgspec.json.encode(shown))

    @staticmethod
    def page(widget: Widget, language: str) -> WidgetFile:
        """Return the page at which a widget can be tried, in the first of its languages or in `language`."""
        spoken = language if language in widget.languages else widget.languages[0]
        text = _PAGE.format(
            language=spoken, name=escape(widget.name), text=_TEXTS[spoken], path=escape(widget.path)
        )
        return WidgetFile(text.encode(), MEDIA_TYPES[".html"])


@lru_cache(128)
def _script(shown: bytes) -> WidgetFile:
    return WidgetFile(_FRAME.encode() % (shown, _source()), MEDIA_TYPES[".js"])


@lru_cache(1)
def _source() -> bytes:
    whole = "".join((FOLDER / f"{name}.js").read_text("utf-8") for name in PARTS)
    lines = (line.strip() for line in _TYPES.sub("", whole).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("// ")).encode() + b"\n"
