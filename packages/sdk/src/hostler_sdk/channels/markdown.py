"""Read Markdown as language models write it, into blocks and inlines for `markup` to render.

It is written here, and no library is used: the SDK's dependencies are those of every plugin, a chat knows
few marks, and what a model has written so far is often unfinished (an open code block, a lone `**`), which
a reader for chats shows as it will most likely end. It reads paragraphs with their line breaks, headings,
lists, quotes, fenced code, tables and rules; in them bold, italic, struck and code text, links, images and
escapes. HTML, footnotes, reference links and indented code are text. Its time grows with the length of the
text, and nesting ends at MAX_DEPTH.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

MAX_DEPTH = 8
"""Lists and quotes in each other, and marks around each other; deeper ones are text."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text, or a line break (`\\n`)."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Code within a line."""

    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    """Bold text."""

    inlines: Inlines


@dataclass(frozen=True, slots=True)
class Emphasis:
    """Italic text."""

    inlines: Inlines


@dataclass(frozen=True, slots=True)
class Strike:
    """Struck-out text."""

    inlines: Inlines


@dataclass(frozen=True, slots=True)
class Link:
    """A link; an image is a link with its alternative text."""

    inlines: Inlines
    url: str


Inline = Text | Code | Strong | Emphasis | Strike | Link
Inlines = tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines of text."""

    inlines: Inlines


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `level` is 1 to 6."""

    level: int
    inlines: Inlines


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Fenced code. `language` is "" if none is named."""

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Quote:
    """Quoted blocks."""

    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Listing:
    """A list. `start` is the first number, None without numbers."""

    items: tuple[Blocks, ...]
    start: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first row is its header."""

    rows: tuple[tuple[Inlines, ...], ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line between parts."""


Block = Paragraph | Heading | CodeBlock | Quote | Listing | Table | Rule
Blocks = tuple[Block, ...]

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_RULE = re.compile(r" {0,3}(?:\*[ \t]*){3,}| {0,3}(?:-[ \t]*){3,}| {0,3}(?:_[ \t]*){3,}")
_QUOTE = re.compile(r" {0,3}> ?(.*)")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])(\s+|$)(.*)")
_TABLE_LINE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?[ \t]*")
_CELL_END = re.compile(r"(?<!\\)\|")


def parse(text: str) -> Blocks:
    """Read a text. Any text has a meaning: nothing is raised."""
    return _blocks(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 0)


def _blocks(lines: list[str], depth: int) -> Blocks:
    found: list[Block] = []
    paragraph: list[str] = []
    at = 0
    while at < len(lines):
        read = _block_at(lines, at, depth)
        if read is None:
            paragraph.append(lines[at])
            at += 1
            continue
        block, at = read
        _end_paragraph(paragraph, found)
        if block is not None:
            found.append(block)
    _end_paragraph(paragraph, found)
    return tuple(found)


def _end_paragraph(lines: list[str], found: list[Block]) -> None:
    if lines:
        found.append(Paragraph(inlines("\n".join(line.strip() for line in lines))))
        lines.clear()


def _block_at(  # noqa: PLR0911 - one for each kind of block
    lines: list[str], at: int, depth: int
) -> tuple[Block | None, int] | None:
    """Read the block that begins at a line, and return it with the line after it; None for a paragraph."""
    line = lines[at]
    if not line.strip():
        return None, at + 1
    if fence := _FENCE.fullmatch(line):
        return _code(lines, at, fence)
    if heading := _HEADING.fullmatch(line):
        title = (heading[2] or "").strip().rstrip("#").rstrip()
        return Heading(len(heading[1]), inlines(title)), at + 1
    if _RULE.fullmatch(line):
        return Rule(), at + 1
    if "|" in line and at + 1 < len(lines) and _TABLE_LINE.fullmatch(lines[at + 1]):
        return _table(lines, at)
    if depth < MAX_DEPTH:
        if _QUOTE.fullmatch(line):
            return _quote(lines, at, depth)
        if item := _ITEM.fullmatch(line):
            return _listing(lines, at, item, depth)
    return None


def _code(lines: list[str], at: int, fence: re.Match[str]) -> tuple[Block, int]:
    indent, mark, info = fence.groups()
    close = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*")
    code = []
    at += 1
    while at < len(lines) and not close.fullmatch(lines[at]):
        line = lines[at]
        code.append(line[len(indent) :] if line[: len(indent)].isspace() else line)
        at += 1
    return CodeBlock("\n".join(code), info.split()[0] if info.split() else ""), at + 1


def _quote(lines: list[str], at: int, depth: int) -> tuple[Block, int]:
    inner = []
    while at < len(lines) and (quoted := _QUOTE.fullmatch(lines[at])):
        inner.append(quoted[1])
        at += 1
    return Quote(_blocks(inner, depth + 1)), at


def _listing(lines: list[str], at: int, first: re.Match[str], depth: int) -> tuple[Block, int]:
    """Read a list: the items with the same kind of mark, and what is indented below them."""
    numbered = first[2][0].isdigit()
    outer = _width(first[1])
    items: list[Blocks] = []
    while at < len(lines) and (item := _ITEM.fullmatch(lines[at])):
        if item[2][0].isdigit() != numbered or _width(item[1]) > outer + 1 or _RULE.fullmatch(lines[at]):
            break
        inner = [item[4]]
        at += 1
        while at < len(lines) and _belongs(lines, at, outer):
            inner.append(_dedented(lines[at], outer + len(item[2]) + 1))
            at += 1
        items.append(_blocks(inner, depth + 1))
        after = at
        while after < len(lines) and not lines[after].strip():
            after += 1
        if after < len(lines) and _ITEM.fullmatch(lines[after]):
            at = after
    start = int(first[2][:-1]) if numbered else None
    return Listing(tuple(items), start), at


def _belongs(lines: list[str], at: int, outer: int) -> bool:
    """Whether a line is part of the item above it: it is indented, or blank before such a line."""
    line = lines[at]
    if line.strip():
        return _width(line[: len(line) - len(line.lstrip())]) > outer + 1
    return at + 1 < len(lines) and bool(lines[at + 1].strip()) and _belongs(lines, at + 1, outer)


def _width(space: str) -> int:
    return len(space.expandtabs(4))


def _dedented(line: str, width: int) -> str:
    lead = line[: len(line) - len(line.lstrip())].expandtabs(4)
    return lead[width:] + line.lstrip()


def _table(lines: list[str], at: int) -> tuple[Block, int]:
    rows = [_row(lines[at])]
    at += 2
    while at < len(lines) and "|" in lines[at]:
        rows.append(_row(lines[at]))
        at += 1
    width = len(rows[0])
    return Table(tuple((*row, *[()] * (width - len(row)))[:width] for row in rows)), at


def _row(line: str) -> tuple[Inlines, ...]:
    cells = _CELL_END.split(line.strip())
    if cells and not cells[0].strip():
        cells = cells[1:]
    if cells and not cells[-1].strip():
        cells = cells[:-1]
    return tuple(inlines(cell.strip().replace("\\|", "|")) for cell in cells)


# -- within lines ---------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<ticks>`+)"
    r"|(?P<link>!?\[(?P<label>(?:[^\[\]\\\n]|\\.|\[[^\[\]\n]{0,200}\]){0,1000})\]"
    r"\([ ]?(?:<(?P<angled>[^<>\n]{0,2000})>"
    r"|(?P<url>[^\s()<>]{0,2000}(?:\([^\s()<>]{0,500}\)[^\s()<>]{0,500}){0,8}))"
    r"(?:[ ]+\"[^\"\n]{0,500}\")?[ ]?\))"
    r"|<(?P<auto>(?:https?|mailto|tel|tg):[^\s<>]{1,2000})>"
    r"|(?P<bare>https?://[^\s<>\[\]`*|\"]{1,2000})"
    r"|(?P<entity>&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"
    r"|(?P<run>\*+|_+|~~)"
)


@dataclass(slots=True)
class _Open:
    """A mark that may be closed, and the text that followed it."""

    mark: str
    inlines: list[Inline]


def inlines(text: str, depth: int = 0) -> Inlines:
    """Read the marks within a paragraph. What is not closed is text."""
    ticks: dict[int, list[int]] = defaultdict(list)
    for run in re.finditer("`+", text):
        ticks[len(run[0])].append(run.start())
    stack = [_Open("", [])]
    at = 0
    while match := _TOKEN.search(text, at):
        _add(stack, Text(text[at : match.start()]))
        at = match.end()
        match match.lastgroup:
            case "escape":
                _add(stack, Text(match[0][1]))
            case "ticks":
                at = _code_span(text, match, ticks, stack)
            case "link":
                url = _unescaped(match["url"] if match["angled"] is None else match["angled"])
                label = match["label"] or url
                inner = inlines(label, depth + 1) if depth < MAX_DEPTH else (Text(label),)
                _add(stack, Link(inner, url) if url else Text(match[0]))
            case "auto" | "bare":
                at = _bare(match, stack)
            case "entity":
                _add(stack, Text(html.unescape(match[0])))
            case _:
                _run(text, match, stack)
    _add(stack, Text(text[at:]))
    while len(stack) > 1:
        _reopen(stack)
    return tuple(stack[0].inlines)


def _add(stack: list[_Open], inline: Inline) -> None:
    inner = stack[-1].inlines
    if isinstance(inline, Text) and inner and isinstance(inner[-1], Text):
        inner[-1] = Text(inner[-1].text + inline.text)
    elif not isinstance(inline, Text) or inline.text:
        inner.append(inline)


def _unescaped(url: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", url)


def _code_span(text: str, match: re.Match[str], ticks: dict[int, list[int]], stack: list[_Open]) -> int:
    ends = ticks[len(match[0])]
    number = bisect_left(ends, match.end())
    if number == len(ends):
        _add(stack, Text(match[0]))
        return match.end()
    code = text[match.end() : ends[number]].replace("\n", " ")
    padded = len(code) > 2 and code[0] == code[-1] == " " and code.strip()
    _add(stack, Code(code[1:-1] if padded else code))
    return ends[number] + len(match[0])


def _bare(match: re.Match[str], stack: list[_Open]) -> int:
    """Add an address as a link to itself; punctuation at its end is not part of it."""
    if match["auto"]:
        _add(stack, Link((Text(match["auto"]),), match["auto"]))
        return match.end()
    url = match[0].rstrip(".,;:!?'_~")
    while url.endswith(")") and url.count(")") > url.count("("):
        url = url[:-1]
    _add(stack, Link((Text(url),), url))
    return match.start() + len(url)


_KINDS: dict[str, type[Strong | Emphasis | Strike]] = {
    "**": Strong,
    "__": Strong,
    "*": Emphasis,
    "_": Emphasis,
    "~~": Strike,
}


def _run(text: str, match: re.Match[str], stack: list[_Open]) -> None:
    """Close and open marks at a run of `*`, `_` or `~~`."""
    before, after = text[match.start() - 1 : match.start()] or " ", text[match.end() : match.end() + 1] or " "
    word = match[0][0] == "_" and before.isalnum() and after.isalnum()
    # more than CommonMark allows: **注意：**这里 is bold, as its writer means it
    opens = not after.isspace() and not word
    closes = not before.isspace() and not word
    left = match[0]
    while closes and left and (mark := _to_close(stack, left)) is not None:
        while stack[-1].mark != mark:
            _reopen(stack)
        closed = stack.pop()
        _add(stack, _KINDS[mark](tuple(closed.inlines)) if closed.inlines else Text(mark + mark))
        left = left[len(mark) :]
    while opens and left and len(stack) <= MAX_DEPTH:
        mark = left[:2] if left[:2] in _KINDS else left[:1]
        stack.append(_Open(mark, []))
        left = left[len(mark) :]
    _add(stack, Text(left))


def _to_close(stack: list[_Open], left: str) -> str | None:
    """Return the innermost open mark that this run closes."""
    return next((one.mark for one in reversed(stack[1:]) if left.startswith(one.mark)), None)


def _reopen(stack: list[_Open]) -> None:
    """Take the innermost open mark as text."""
    lone = stack.pop()
    _add(stack, Text(lone.mark))
    for inline in lone.inlines:
        _add(stack, inline)
