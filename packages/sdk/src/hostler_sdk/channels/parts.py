"""Split Markdown into messages whose rendered text fits, where marks make a text longer than it was written.

The host splits what agents write by its own length. A dialect may add to that: `&` becomes `&amp;`, and a
wide table a list that repeats its titles.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from hostler_protocol.channels import MessageUnit
from hostler_sdk.channels.markdown import (
    Block,
    Blocks,
    Code,
    CodeBlock,
    Emphasis,
    Heading,
    Inline,
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
from hostler_sdk.channels.markup import Marks, plain_link, render_blocks, utf16_length

MIN_LENGTH = 40
"""The shortest message that texts are split for, as for the host."""
_BETWEEN = "\n\n"
_BREAKS = ("\n", " ")
"""Where a text is split rather than anywhere, the better place first."""
_JOINER = "\u200d"
_NEAR = 4
"""A better place counts only within so much of the middle: a quarter of the text."""

_LENGTHS: dict[MessageUnit, Callable[[str], int]] = {
    "characters": len,
    "utf16": utf16_length,
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
}


def render_parts(
    text: str,
    marks: Marks,
    max_message: int,
    message_unit: MessageUnit | Callable[[str], int] = "characters",
    *,
    plain: bool = False,
) -> list[str]:
    """Turn Markdown into messages of at most `max_message`, in order, none of them blank.

    Blocks stay whole where they fit; else a list, table or quote is split between its items, rows or blocks,
    and text and code at a line or a word. Each message has whole marks. Marks that leave no room for text are
    left out.

    `message_unit`: how the platform counts what is rendered, or a function that does, such as one that leaves
    out tags; it must count two texts together as much as each of them. `plain`: the text is no Markdown, and
    is only escaped. Raises ValueError if `max_message` is below MIN_LENGTH.
    """
    if max_message < MIN_LENGTH:
        raise ValueError(f"messages of at most {max_message} are too short; at least {MIN_LENGTH}")
    length = message_unit if callable(message_unit) else _LENGTHS[message_unit]
    if not plain:
        return list(_Parts(marks, max_message, length).of(parse(text)))
    whole = marks.escape(text)
    if length(whole) <= max_message:
        return [whole] if whole.strip() else []
    paragraphs = tuple(Paragraph((Text(one),)) for one in text.split(_BETWEEN))
    return list(_Parts(marks, max_message, length).of(paragraphs))


class _Parts:
    def __init__(self, marks: Marks, most: int, length: Callable[[str], int]) -> None:
        self._marks = marks
        self._most = most
        self._length = length

    def of(self, blocks: Blocks) -> Iterator[str]:
        """Yield messages; blocks that fit together are in one."""
        whole, size = "", 0
        for block in blocks:
            pieces = list(self._pieces(block))
            for number, piece in enumerate(pieces):
                added = self._length(piece)
                # the pieces of one block are messages of their own: together they did not fit
                if whole and (number or size + len(_BETWEEN) + added > self._most):
                    yield whole
                    whole, size = "", 0
                if whole:
                    whole, size = whole + _BETWEEN, size + len(_BETWEEN)
                whole, size = whole + piece, size + added
        if whole:
            yield whole

    def _pieces(self, block: Block) -> Iterator[str]:
        """Yield a block as it is rendered, in as many pieces as it needs."""
        waiting = [block]
        while waiting:
            block = waiting.pop()
            shown = render_blocks((block,), self._marks)
            if self._length(shown) <= self._most:
                if shown.strip():
                    yield shown
            else:
                waiting += reversed(_halves(block) or _simpler(block))


# -- blocks -------------------------------------------------------------------------------------------


def _halves(block: Block) -> list[Block]:  # noqa: PLR0911 - one for each kind of block
    """Return a block as two smaller ones; none if it cannot be divided."""
    match block:
        case Paragraph(inlines):
            return [Paragraph(half) for half in _halves_of_inlines(inlines)]
        case Heading(level, inlines):
            return [Heading(level, half) for half in _halves_of_inlines(inlines)]
        case CodeBlock(text, language):
            return [CodeBlock(half, language) for half in _halves_of_text(text)]
        case Quote(inner):
            return [Quote(half) for half in _halves_of_blocks(inner)]
        case Listing(items, start):
            return _halves_of_listing(items, start)
        case Table(rows):
            return _halves_of_table(rows)
        case Rule():
            return []


def _halves_of_blocks(blocks: Blocks) -> list[Blocks]:
    if len(blocks) > 1:
        middle = len(blocks) // 2
        return [blocks[:middle], blocks[middle:]]
    return [(half,) for block in blocks for half in _halves(block)]


def _halves_of_listing(items: tuple[Blocks, ...], start: int | None) -> list[Block]:
    if len(items) > 1:
        middle = len(items) // 2
        following = None if start is None else start + middle
        return [Listing(items[:middle], start), Listing(items[middle:], following)]
    halves = _halves_of_blocks(items[0]) if items else []
    if not halves:
        return []
    first, *others = halves
    return [Listing((first,), start), *chain(*others)]  # what an item goes on with has no bullet of its own


def _halves_of_table(rows: tuple[tuple[Inlines, ...], ...]) -> list[Block]:
    """Return a table as two with the same titles; one with a single row as its cells."""
    if len(rows) > 2:
        middle = 1 + len(rows) // 2
        return [Table(rows[:middle]), Table((rows[0], *rows[middle:]))]
    titles, cells = rows[0], rows[-1]
    if len(rows) == 1:
        return [Paragraph((Strong(cell),)) for cell in titles]
    named = zip(titles[1:], cells[1:], strict=True)
    others = [Paragraph((*title, Text(": "), *cell)) for title, cell in named]
    return [Paragraph((Strong(cells[0]),)), *others] if cells else []


def _simpler(block: Block) -> list[Block]:
    """Return a block that cannot be divided with fewer marks; none of a single character."""
    match block:
        case CodeBlock(text, language):
            return [CodeBlock(text, "") if language else Paragraph((Text(text),))]
        case Heading(_, inlines):
            return [Paragraph(inlines)]
        case Quote(inner):
            return list(inner)
        case Listing(items, _):
            return [*chain(*items)]
        case Paragraph(inlines) if not (len(inlines) == 1 and isinstance(inlines[0], Text)):
            return [Paragraph((Text(_words_of(inlines)),))]
    return []


# -- inlines ------------------------------------------------------------------------------------------


def _halves_of_inlines(inlines: Inlines) -> list[Inlines]:
    if len(inlines) > 1:
        middle = _middle_of(inlines)
        return [inlines[:middle], inlines[middle:]]
    return [half for inline in inlines for half in _halves_of_inline(inline)]


def _middle_of(inlines: Inlines) -> int:
    """Return where about half of the words come before."""
    sizes = [len(_words_of((inline,))) for inline in inlines]
    before = 0
    for number, size in enumerate(sizes[:-1], 1):
        before += size
        if 2 * before >= sum(sizes):
            return number
    return len(sizes) - 1


def _halves_of_inline(inline: Inline) -> list[Inlines]:
    match inline:
        case Text(text):
            return [(Text(half),) for half in _halves_of_text(text)]
        case Code(text):
            return [(Code(half),) for half in _halves_of_text(text)]
        case Link():  # half an address leads nowhere: it is shown
            return _halves_of_inline(Text(_words_of((inline,))))
        case Strong(inner) | Emphasis(inner) | Strike(inner):
            return [(replace(inline, inlines=half),) for half in _halves_of_inlines(inner)]


def _words_of(inlines: Inlines) -> str:
    parts = []
    for inline in inlines:
        match inline:
            case Text(text) | Code(text):
                parts.append(text)
            case Link(inner, url):
                parts.append(plain_link(_words_of(inner), url))
            case Strong(inner) | Emphasis(inner) | Strike(inner):
                parts.append(_words_of(inner))
    return "".join(parts)


# -- text ---------------------------------------------------------------------------------------------


def _halves_of_text(text: str) -> list[str]:
    """Return a text in two, split near its middle at a line, at a word, or between what a reader sees as
    characters; none if it has a single one.
    """
    middle, near = len(text) // 2, len(text) // _NEAR
    for mark in _BREAKS:
        found = [at for at in (text.rfind(mark, 0, middle + 1), text.find(mark, middle)) if at >= 0]
        best = min(found, key=lambda at: abs(at - middle), default=-1)
        if best > 0 and abs(best - middle) <= near and best + 1 < len(text):
            return [text[:best], text[best + 1 :]]
    if middle == 0:
        return []
    nearest = chain.from_iterable((middle - away, middle + away) for away in range(middle))
    place = next((at for at in nearest if _is_boundary(text, at)), middle)
    return [text[:place], text[place:]]


def _is_boundary(text: str, at: int) -> bool:
    """Whether a reader sees two characters there: no accent, skin tone, flag or joined emoji is torn."""
    before, after = text[at - 1], text[at]
    joined = _JOINER in {before, after} or unicodedata.category(after)[0] == "M"
    tone = 0x1F3FB <= ord(after) <= 0x1F3FF or 0xE0020 <= ord(after) <= 0xE007F
    return not (joined or tone or (_is_half_flag(after) and _half_flags_before(text, at) % 2))


def _is_half_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _half_flags_before(text: str, at: int) -> int:
    """Return how many letters of flags precede without a break: two are a flag each."""
    count = 0
    while count < at and _is_half_flag(text[at - 1 - count]):
        count += 1
    return count
