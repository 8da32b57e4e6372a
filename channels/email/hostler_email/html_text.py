"""The text of an HTML mail, read in one pass: hostile HTML costs no more than its length."""

from __future__ import annotations

import html
import re

MAX_HTML_CHARS = 500_000
MAX_URL_CHARS = 500
_LINES = {"address", "article", "blockquote", "br", "div", "dl", "dt", "dd", "figure", "footer", "form", "h1"}
_LINES |= {"h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre", "section", "table"}
_LINES |= {"tr", "ul"}
_PARAGRAPHS = {"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul"}
_UNSEEN = {"head", "script", "style", "title", "template", "noscript"}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9:-]{0,30}")
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])|\shidden\b", re.IGNORECASE
)
_LINK = re.compile(r"\shref\s*=\s*[\"']?(https?://[^\s\"'<>]+)", re.IGNORECASE)
_BLANKS = re.compile(r"[ \t\r\n\f]+")


def text_of_html(source: str) -> str:
    """Return what a person would read. Links have their addresses beside them; what is hidden is left out."""
    reader = _Reader()
    source = source[:MAX_HTML_CHARS]
    at = 0
    while at < len(source):
        begin = source.find("<", at)
        if begin < 0:
            reader.text(source[at:])
            break
        reader.text(source[at:begin])
        at = reader.mark(source, begin)
    return reader.result()


class _Reader:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._hidden: list[str] = []
        """Open elements inside of one that is not shown, which is the first."""
        self._link: str | None = None
        self._link_at = 0
        self._is_pre = 0

    def text(self, text: str) -> None:
        if text and not self._hidden:
            shown = html.unescape(text)
            self._pieces.append(shown if self._is_pre else _BLANKS.sub(" ", shown))

    def mark(self, source: str, begin: int) -> int:
        """Take what begins with `<`; return where it ends."""
        if source.startswith("<!--", begin):
            end = source.find("-->", begin + 4)
            return len(source) if end < 0 else end + 3
        name = _NAME.match(source, begin + 1)
        if name is None and source[begin + 1 : begin + 2] not in {"!", "?", "/"}:
            self.text("<")
            return begin + 1
        end = source.find(">", begin)
        if end < 0:
            return len(source)
        if name is not None:
            self._tag(name[0].lower(), source[name.end() : end])
            if name[0].lower() in {"script", "style"}:
                close = re.compile(f"</{name[0]}", re.IGNORECASE).search(source, end)
                return len(source) if close is None else close.start()
        return end + 1

    def _tag(self, name: str, attributes: str) -> None:
        closes, name = name.startswith("/"), name.removeprefix("/")
        if name in _VOID:
            closes = False
        elif self._hidden:
            if not closes:
                self._hidden.append(name)
            elif name in self._hidden[-50:]:
                while self._hidden.pop() != name:
                    pass
            return
        elif not closes and (name in _UNSEEN or _HIDDEN.search(attributes[:2_000])):
            self._hidden.append(name)
            return
        if not self._hidden:
            self._shown(name, attributes, closes=closes)

    def _shown(self, name: str, attributes: str, *, closes: bool) -> None:
        if name == "a":
            self._end_link()
            if not closes and (found := _LINK.search(attributes[:4_000])):
                self._link, self._link_at = html.unescape(found[1])[:MAX_URL_CHARS], len(self._pieces)
        if name == "pre":
            self._is_pre = max(0, self._is_pre + (-1 if closes else 1))
        if name in _LINES:
            self._pieces.append("\n\n" if name in _PARAGRAPHS else "\n")
        if name == "li" and not closes:
            self._pieces.append("- ")
        if name in {"td", "th"} and closes:
            self._pieces.append("\t")

    def _end_link(self) -> None:
        link, self._link = self._link, None
        if link is not None and link not in "".join(self._pieces[self._link_at :]):
            self._pieces.append(f" ({link})")

    def result(self) -> str:
        self._end_link()
        lines = [line.strip(" \t\u00a0") for line in "".join(self._pieces).split("\n")]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
