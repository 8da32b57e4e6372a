"""Convert a page to text, without scripts and styles, with headings, lists, links and tables as plain text.

A one-pass scanner: every search starts where the last one ended, and one without a match ends the page, so
the time is linear in the page's length for any content.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from html import unescape
from typing import Literal
from urllib.parse import urljoin

import msgspec
from msgspec.structs import replace

from hostler.domain.record import Record

MAX_LINKS = 200
MAX_LINK_CHARS = 500
MAX_TITLE_CHARS = 300
MAX_TOKENS = 250_000
"""Tags and texts read: about a second's work, and more than readable pages have."""
_MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
_NAME = re.compile(r"[a-zA-Z][^\s/>]{0,100}")
_ATTRIBUTE_NAME = re.compile(r"[^\s/>=]+|=")
_SPACES = re.compile(r"\s+")
_NOT_SPACE_OR_SLASH = re.compile(r"[^\s/]")
_NOT_SPACE = re.compile(r"\S")
_BARE_VALUE = re.compile(r"[^\s>]*")
_LONG_NUMBER = re.compile(r"&#[xX]?[0-9a-fA-F]{9,}")
_EMPTY_LINES = re.compile(r"\n{3,}")
_LINE_ENDS = re.compile(r"[ \t]+\n")
_WANTED = frozenset({"href", "alt"})
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp")
}
"""Elements whose content is not markup."""
_HIDDEN = frozenset({"template", "svg", "math", "datalist"})
_PARAGRAPHS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "ul",
    ]
)
_LINES = frozenset(["br", "caption", "li", "option", "summary", "tbody", "thead", "tfoot", "tr"])
_PREFIXES = {"li": "- "} | {f"h{level}": "#" * level + " " for level in range(1, 7)}


class PageLink(Record):
    """A link with its text; `url` is absolute."""

    text: str
    url: str


class PageText(Record):
    """The text of a page and its links."""

    title: str
    text: str
    links: tuple[PageLink, ...]
    cut: bool = False
    """The page is longer than what was read."""


class _Token(Record):
    kind: Literal["text", "start", "end"]
    value: str
    attributes: dict[str, str] = msgspec.field(default_factory=dict)


def page_text(html: str, base: str) -> PageText:
    """Convert a page; `base` is its address."""
    reader = _Reader(base)
    for number, token in enumerate(_tokens(html)):
        if number >= MAX_TOKENS:
            return replace(reader.result(), cut=True)
        match token.kind:
            case "text":
                reader.text(token.value)
            case "start":
                reader.start(token.value, token.attributes)
            case "end":
                reader.end(token.value)
    return reader.result()


# -- scanning -------------------------------------------------------------------------------------


def _tokens(html: str) -> Iterator[_Token]:
    at = 0
    while True:
        begin = _MARKUP.search(html, at)
        if begin is None:
            yield _Token("text", html[at:])
            return
        sign = begin.start()
        if sign > at:
            yield _Token("text", html[at:sign])
        following = html[sign + 1 : sign + 2]
        if following in ("!", "?") or (following == "/" and not html[sign + 2 : sign + 3].isalpha()):
            at = _after_aside(html, sign)
        elif following == "/":
            match = _NAME.match(html, sign + 2)
            at = html.find(">", sign) + 1
            if match is not None:
                yield _Token("end", match[0].lower())
        else:
            match = _NAME.match(html, sign + 1)
            assert match is not None
            name = match[0].lower()
            attributes: dict[str, str] = {}
            at = _after_attributes(html, match.end(), attributes)
            if at:
                yield _Token("start", name, attributes)
                at = yield from _raw(html, at, name)
        if not at:
            return


def _after_aside(html: str, sign: int) -> int:
    """Return the end of a comment or declaration, or 0 if it has none."""
    if html.startswith("<!--", sign):
        if html.startswith((">", "->"), sign + 4):
            return html.find(">", sign) + 1
        end = html.find("-->", sign + 4)
        return end + 3 if end >= 0 else 0
    return html.find(">", sign) + 1


def _after_attributes(html: str, at: int, found: dict[str, str]) -> int:
    """Return the end of a tag, or 0 if it has none; store the wanted attributes in `found`."""
    while True:
        begin = _NOT_SPACE_OR_SLASH.search(html, at)
        if begin is None:
            return 0
        if begin[0] == ">":
            return begin.end()
        name = _ATTRIBUTE_NAME.match(html, begin.start())
        assert name is not None
        at = name.end()
        sign = _NOT_SPACE.search(html, at)
        if sign is None:
            return 0
        if sign[0] != "=":
            continue
        value = _NOT_SPACE.search(html, sign.end())
        if value is None:
            return 0
        if value[0] in "\"'":
            end = html.find(value[0], value.end())
            if end < 0:
                return 0
            said, at = html[value.end() : end], end + 1
        else:
            bare = _BARE_VALUE.match(html, value.start())
            assert bare is not None
            said, at = bare[0], bare.end()
        if (key := name[0].lower()) in _WANTED:
            found.setdefault(key, said)


def _raw(html: str, at: int, name: str) -> Generator[_Token, None, int]:
    """Yield the content of an element that is not markup; return its end, or 0 if it has none."""
    pattern = _RAW.get(name)
    if pattern is None:
        return at
    end = pattern.search(html, at)
    if end is None:
        return 0
    if name in ("title", "textarea", "xmp"):
        yield _Token("text", html[at : end.start()])
    return end.start()


# -- output ---------------------------------------------------------------------------------------


class _Reader:
    """Builds the text."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._parts: list[str] = []
        self._title: list[str] | None = None
        self._titles: list[str] = []
        self._hidden: dict[str, int] = {}
        self._pre = 0
        self._ends_with = "\n"
        self._links: list[PageLink] = []
        self._link: tuple[str, int] | None = None

    def text(self, raw: str) -> None:
        plain = unescape(_LONG_NUMBER.sub("\ufffd", raw)) if "&" in raw else raw
        if self._title is not None:
            self._title.append(plain)
            return
        if self._hidden:
            return
        if not self._pre:
            plain = _SPACES.sub(" ", plain)
            if self._ends_with in " \n\t":
                plain = plain.lstrip(" ")
        self._add(plain)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _HIDDEN or self._hidden:
            if name in self._hidden or name in _HIDDEN:
                self._hidden[name] = self._hidden.get(name, 0) + 1
            return
        if name == "title" and not self._titles:
            self._title = []
            return
        self._break(name)
        self._pre += name == "pre"
        if name in ("td", "th") and self._ends_with not in "\n\t":
            self._add("\t")
        self._add(_PREFIXES.get(name, ""))
        if name == "img" and (alt := unescape(attributes.get("alt", "")[:MAX_LINK_CHARS]).strip()):
            self._add(f"[image: {_SPACES.sub(' ', alt)}]")
        if name == "a" and "href" in attributes:
            self._link = (attributes["href"], len(self._parts))

    def end(self, name: str) -> None:
        if self._hidden:
            if name in self._hidden:
                self._hidden[name] -= 1
                if not self._hidden[name]:
                    del self._hidden[name]
            return
        if name == "title" and self._title is not None:
            self._titles.append("".join(self._title))
            self._title = None
            return
        self._pre = max(0, self._pre - (name == "pre"))
        if name == "a":
            self._end_link()
        if name != "li":
            self._break(name)

    def result(self) -> PageText:
        text = _LINE_ENDS.sub("\n", "".join(self._parts))
        title = self._titles[0] if self._titles else ""
        return PageText(
            _SPACES.sub(" ", title).strip()[:MAX_TITLE_CHARS],
            _EMPTY_LINES.sub("\n\n", text).strip(),
            tuple(self._links),
        )

    def _break(self, name: str) -> None:
        if name in _PARAGRAPHS:
            self._add("\n\n")
        elif name in _LINES and (name == "br" or self._ends_with != "\n"):
            self._add("\n")

    def _add(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._ends_with = text[-1]

    def _end_link(self) -> None:
        if self._link is None or len(self._links) >= MAX_LINKS:
            return
        href, since = self._link
        self._link = None
        said = "".join(self._parts[since : since + 50])[:MAX_LINK_CHARS]
        try:
            url = urljoin(self._base, unescape(href[: 4 * MAX_LINK_CHARS]).strip())
        except ValueError:
            return
        if url.startswith(("http://", "https://")):
            self._links.append(PageLink(_SPACES.sub(" ", said).strip(), url))
