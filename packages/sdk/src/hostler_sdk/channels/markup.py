"""Turn Markdown into what a chat platform shows: HTML of a page, or lines with the marks of a chat.

    render("**hello**", CHAT_HTML)  # <b>hello</b>
    render("**hello**", MRKDWN)     # *hello*
    render("**hello**", PLAIN)      # hello
    page_html("**hello**")          # <p><strong>hello</strong></p>

Chats have no headings, lists or tables: headings become bold lines, items get bullets, and a table becomes
aligned text in a code block or, where that would be too wide for a telephone, a list of its rows.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace

from hostler_sdk.channels.markdown import (
    Block,
    Blocks,
    Code,
    CodeBlock,
    Emphasis,
    Heading,
    Inlines,
    Link,
    Listing,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    parse,
)

TABLE_WIDTH = 48
"""Columns of a table shown as aligned text; a telephone shows about so many."""
LINKED = ("http://", "https://", "mailto:", "tel:", "tg://")
"""How addresses begin that platforms make links of; others are shown beside their text."""
RULE = "———"


def _around(before: str, after: str) -> Callable[[str], str]:
    return lambda text: f"{before}{text}{after}" if text else ""


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Marks:
    """How a chat writes marks. Functions get text that is escaped already; `code_block` its language, too.

    `quotes_nest`: quotes may be in quotes; otherwise inner ones are lines that begin with `>`.
    """

    escape: Callable[[str], str]
    strong: Callable[[str], str]
    emphasis: Callable[[str], str]
    strike: Callable[[str], str]
    code: Callable[[str], str]
    link: Callable[[str, str], str]
    code_block: Callable[[str, str], str]
    quote: Callable[[str], str]
    quotes_nest: bool = True


def _escape_three(text: str) -> str:
    return html.escape(text, quote=False)


def _html_code(code: str, language: str) -> str:
    if not language:
        return f"<pre>{code}</pre>"
    return f'<pre><code class="language-{html.escape(language)}">{code}</code></pre>'


def _html_link(text: str, url: str) -> str:
    return f'<a href="{html.escape(url)}">{text}</a>'


def _lines_quoted(text: str, mark: str = "> ") -> str:
    return "\n".join(mark + line for line in text.split("\n"))


def plain_link(text: str, url: str) -> str:
    """Return a link as text: with its address behind it, unless that is the text."""
    return text if text in {url, url.removeprefix("mailto:")} else f"{text} ({url})"


CHAT_HTML = Marks(
    escape=_escape_three,
    strong=_around("<b>", "</b>"),
    emphasis=_around("<i>", "</i>"),
    strike=_around("<s>", "</s>"),
    code=_around("<code>", "</code>"),
    link=_html_link,
    code_block=_html_code,
    quote=_around("<blockquote>", "</blockquote>"),
    quotes_nest=False,
)
"""The few tags of HTML that chats like Telegram know."""

MRKDWN = Marks(
    escape=_escape_three,
    strong=_around("*", "*"),
    emphasis=_around("_", "_"),
    strike=_around("~", "~"),
    code=_around("`", "`"),
    link=lambda text, url: f"<{html.escape(url, quote=False).replace('|', '%7C')}|{text.replace('|', '¦')}>",
    code_block=lambda code, _: f"```\n{code}\n```",
    quote=_lines_quoted,
)
"""Slack's mrkdwn."""

PLAIN = Marks(
    escape=_as_it_is,
    strong=_as_it_is,
    emphasis=_as_it_is,
    strike=_as_it_is,
    code=_as_it_is,
    link=plain_link,
    code_block=lambda code, _: code,
    quote=_lines_quoted,
)
"""No marks at all."""


def render(text: str, marks: Marks) -> str:
    """Turn Markdown into lines of a chat. Where marks make it too long, `parts.render_parts` splits it."""
    return render_blocks(parse(text), marks)


def render_blocks(blocks: Blocks, marks: Marks) -> str:
    """Turn Markdown that was read into lines of a chat."""
    return _Lines(marks).blocks(blocks)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram and others count it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True, slots=True)
class _Lines:
    marks: Marks
    in_quote: bool = False

    def blocks(self, blocks: Blocks, between: str = "\n\n") -> str:
        return between.join(text for block in blocks if (text := self.block(block)))

    def block(self, block: Block) -> str:  # noqa: PLR0911 - one for each kind of block
        marks = self.marks
        match block:
            case Paragraph(inlines):
                return self.inlines(inlines)
            case Heading(_, inlines):
                return marks.strong(self.inlines(_without_strong(inlines)))
            case CodeBlock(text, language):
                return marks.code_block(marks.escape(text), language) if text.strip() else ""
            case Quote(inner):
                return self.quote(inner)
            case Listing(items, start):
                return self.listing(items, start)
            case Table(rows):
                return self.table(rows)
            case Rule():
                return RULE

    def quote(self, inner: Blocks) -> str:
        if self.in_quote and not self.marks.quotes_nest:
            return _lines_quoted(self.blocks(inner, "\n"), self.marks.escape("> "))
        text = replace(self, in_quote=True).blocks(inner, "\n")
        return self.marks.quote(text) if text else ""

    def listing(self, items: tuple[Blocks, ...], start: int | None) -> str:
        lines = []
        for number, item in enumerate(items):
            mark = "• " if start is None else f"{start + number}. "
            text = self.blocks(item, "\n")
            if item and isinstance(item[0], CodeBlock | Quote):
                text = f"\n{text}"
            if any(isinstance(block, CodeBlock | Quote | Table) for block in item):
                lines.append(mark + text)  # what is indented would change within them
            else:
                lines.append(mark + text.replace("\n", "\n" + " " * len(mark)))
        return "\n".join(lines)

    def table(self, rows: tuple[tuple[Inlines, ...], ...]) -> str:
        plain = _Lines(PLAIN)
        cells = [[plain.inlines(cell).replace("\n", " ") for cell in row] for row in rows]
        if not cells[0]:
            return ""
        widths = [max(_columns(row[number]) for row in cells) for number in range(len(cells[0]))]
        if sum(widths) + 3 * len(widths) > TABLE_WIDTH:
            return self.rows(rows)
        lines = [
            " | ".join(c + " " * (w - _columns(c)) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        return self.marks.code_block(self.marks.escape("\n".join(lines)), "")

    def rows(self, rows: tuple[tuple[Inlines, ...], ...]) -> str:
        """Write a wide table as a list: of each row the first cell, and the others with their titles."""
        header = [self.inlines(cell) for cell in rows[0]]
        lines = []
        for row in rows[1:]:
            cells = [self.inlines(cell) for cell in row[1:]]
            told = [f"{title}: {cell}" for title, cell in zip(header[1:], cells, strict=True) if cell]
            name = self.marks.strong(self.inlines(_without_strong(row[0])))
            lines.append("• " + "\n   ".join([name, *told]))
        return "\n".join(lines) or self.marks.strong(" | ".join(header))

    def inlines(self, inlines: Inlines) -> str:
        marks = self.marks
        parts = []
        for inline in inlines:
            match inline:
                case Text(text):
                    parts.append(marks.escape(text))
                case Code(text):
                    parts.append(marks.code(marks.escape(text)))
                case Strong(inner):
                    parts.append(marks.strong(self.inlines(inner)))
                case Emphasis(inner):
                    parts.append(marks.emphasis(self.inlines(inner)))
                case Strike(inner):
                    parts.append(marks.strike(self.inlines(inner)))
                case Link(inner, url):
                    parts.append(self.link(inner, url))
        return "".join(parts)

    def link(self, inner: Inlines, url: str) -> str:
        text = self.inlines(inner)
        if url.startswith(LINKED) and text.strip():
            return self.marks.link(text, url)
        return plain_link(text, self.marks.escape(url))


def _without_strong(inlines: Inlines) -> Inlines:
    """Take off bold marks of text that becomes bold as a whole."""
    flat: list[Text | Code | Strong | Emphasis | Strike | Link] = []
    for inline in inlines:
        flat += inline.inlines if isinstance(inline, Strong) else (inline,)
    return tuple(flat)


def _columns(text: str) -> int:
    """Return how many columns a text takes in a fixed font: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


# -- pages ----------------------------------------------------------------------------------------


def page_html(text: str) -> str:
    """Turn Markdown into the HTML of a page or a mail. HTML in the text is shown as it is written."""
    return "".join(_page_block(block) for block in parse(text))


_PAGE = replace(
    CHAT_HTML,
    strong=_around("<strong>", "</strong>"),
    emphasis=_around("<em>", "</em>"),
    strike=_around("<del>", "</del>"),
)


def _page_inlines(inlines: Inlines) -> str:
    return _Lines(_PAGE).inlines(inlines).replace("\n", "<br>\n")


def _page_block(block: Block) -> str:  # noqa: PLR0911 - one for each kind of block
    match block:
        case Paragraph(inlines):
            return f"<p>{_page_inlines(inlines)}</p>\n"
        case Heading(level, inlines):
            return f"<h{level}>{_page_inlines(inlines)}</h{level}>\n"
        case CodeBlock(text, language):
            return _html_code(_escape_three(text), language) + "\n"
        case Quote(inner):
            return f"<blockquote>\n{''.join(map(_page_block, inner))}</blockquote>\n"
        case Listing(items, start):
            tag = "ul" if start is None else "ol"
            begin = f' start="{start}"' if start not in {None, 1} else ""
            return f"<{tag}{begin}>\n{''.join(_page_item(item) for item in items)}</{tag}>\n"
        case Table(rows):
            return _page_table(rows)
        case Rule():
            return "<hr>\n"


def _page_item(item: Blocks) -> str:
    first, rest = item[:1], item[1:]
    if first and isinstance(first[0], Paragraph):
        return f"<li>{_page_inlines(first[0].inlines)}{''.join(map(_page_block, rest))}</li>\n"
    return f"<li>{''.join(map(_page_block, item))}</li>\n"


def _page_table(rows: tuple[tuple[Inlines, ...], ...]) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        lines.append("<tr>" + "".join(f"<{tag}>{_page_inlines(cell)}</{tag}>" for cell in row) + "</tr>\n")
    return f"<table>\n{''.join(lines)}</table>\n"
