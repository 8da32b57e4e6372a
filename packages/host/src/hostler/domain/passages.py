"""Cut the text of a document into passages: at headings, then paragraphs, sentences, blanks. Pure.

All searches go forward from where the last one ended, so that the time is linear in the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hostler.domain.record import Record

MAX_HEADING_CHARS = 300
"""Of the headings above a passage, joined."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S[^\n]*)")
_SENTENCE_ENDS = re.compile(r"[.!?…][\"'”’)\]]*\s|[。！？；][”’」』）]*|\n")
_BLANKS = re.compile(r"\s")


class Paragraph(Record):
    """A paragraph, or a row of a table, with the headings above it, joined by ` > `."""

    text: str
    heading: str = ""


class Passage(Record):
    """What a search finds: one or several paragraphs below the same headings, or a piece of a long one."""

    content: str
    heading: str = ""


def cut(paragraphs: Iterable[Paragraph], chars: int) -> Iterator[Passage]:
    """Join paragraphs below the same headings into passages of at most `chars` characters; cut long ones."""
    held: list[str] = []
    size, heading = 0, ""
    for paragraph in paragraphs:
        for piece in _pieces(paragraph.text, chars):
            if held and (paragraph.heading != heading or size + len(piece) + 2 > chars):
                yield Passage("\n\n".join(held), heading)
                held, size = [], 0
            heading = paragraph.heading
            held.append(piece)
            size += len(piece) + 2
    if held:
        yield Passage("\n\n".join(held), heading)


def plain_paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a text: what empty lines part."""
    for lines in _blocks(text):
        yield Paragraph("\n".join(lines))


def markdown_paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of Markdown below its headings (`#`). A block of code is one paragraph."""
    above: list[tuple[int, str]] = []
    heading = ""
    for lines in _blocks(text, code=True):
        found = _HEADING.fullmatch(lines[0])
        if found is None or len(lines) > 1:
            yield Paragraph("\n".join(lines), heading)
            continue
        level = len(found[1])
        above = [one for one in above if one[0] < level]
        title = found[2].rstrip().rstrip("#").rstrip() or found[2].rstrip()
        above.append((level, " ".join(title.split())))
        heading = " > ".join(one for _, one in above)[-MAX_HEADING_CHARS:]


def _blocks(text: str, *, code: bool = False) -> Iterator[list[str]]:
    """Yield the lines of each block; with `code` headings and blocks of code are blocks of their own."""
    held: list[str] = []
    fence = ""
    for line in _lines(text):
        if fence:
            held.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        opening = _FENCE.match(line) if code else None
        if opening is not None:
            fence = opening[1]
        heads = code and opening is None and _HEADING.fullmatch(line) is not None
        if held and (heads or not line or (opening is not None)):
            yield held
            held = []
        if heads:
            yield [line]
        elif line:
            held.append(line)
    if held:
        yield held


def _lines(text: str) -> Iterator[str]:
    """Yield lines without blanks at their ends."""
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].rstrip()
        start = end + 1


def _pieces(text: str, chars: int) -> Iterator[str]:
    """Cut a text into pieces of at most `chars` characters: after a sentence, at a blank, else anywhere."""
    start = 0
    while len(text) - start > chars:
        end = _place_to_cut(text, start, start + chars)
        if piece := text[start:end].strip():
            yield piece
        start = end
    if piece := text[start:].strip():
        yield piece


def _place_to_cut(text: str, start: int, most: int) -> int:
    """Return where to cut, at most at `most`: in the second half, if a sentence or a word ends there."""
    half = start + (most - start) // 2
    for pattern in (_SENTENCE_ENDS, _BLANKS):
        last = None
        for last in pattern.finditer(text, half, most):  # noqa: B007  the last one counts
            pass
        if last is not None:
            return last.end()
    return most
