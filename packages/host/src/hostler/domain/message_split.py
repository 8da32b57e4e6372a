"""Split a long Markdown text into messages of a platform.

A text is split at the end of a paragraph, else of a line, of a sentence or of a word, and else between
characters as a reader sees them. A code block that does not fit is closed at the end of a message and opened
again, in its language, at the beginning of the next.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from hostler.domain.record import Record
from hostler_protocol.channels import MessageUnit

MIN_LIMIT = 40
"""The shortest message that texts are split for: marks of code blocks must leave room for text."""
_EARLIEST = 3
"""A better place to split counts only after this fraction of what fits: a third."""
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)")
_INK = re.compile(r"\S")
_SENTENCE = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[”’」』）]*")


def length_of(text: str, unit: MessageUnit) -> int:
    """Return the length of a text as a platform counts it."""
    if unit == "characters":
        return len(text)
    encoding = "utf-16-le" if unit == "utf16" else "utf-8"
    size = len(text.encode(encoding, "surrogatepass"))
    return size // 2 if unit == "utf16" else size


def _width(char: str, unit: MessageUnit) -> int:
    if unit == "characters":
        return 1
    code = ord(char)
    if unit == "utf16":
        return 2 if code > 0xFFFF else 1
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


class _Fence(Record):
    """An open code block: the line that opened it, and its mark."""

    line: str
    mark: str

    @property
    def closing(self) -> str:
        return f"\n{self.mark}"


def split_message(
    text: str, limit: int, unit: MessageUnit = "characters", *, most: int | None = None
) -> list[str]:
    """Return the messages of a text, each at most `limit` long, none of them blank. A blank text has none.

    `most`: how many of them are returned; the rest of the text is left out. A single character of a reader
    that is longer than `limit` is split, but no code point is. ValueError if `limit` is below MIN_LIMIT.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"messages of at most {limit} are too short to split for; at least {MIN_LIMIT}")
    found: list[str] = []
    rest, fence = text.strip("\n"), None
    while _INK.search(rest) and (most is None or len(found) < most):
        piece, rest, fence = _next(rest, fence, limit, unit)
        if piece.strip():
            found.append(piece)
    return found


def _next(rest: str, fence: _Fence | None, limit: int, unit: MessageUnit) -> tuple[str, str, _Fence | None]:
    """Return the next message, the text after it, and the code block that is open there."""
    head = "" if fence is None else f"{fence.line}\n"
    room = limit - length_of(head, unit)
    fits = _prefix(rest, room, unit)
    if fits == len(rest):
        return head + rest.rstrip(), "", None
    # what follows by more than a line that opens a code block makes no difference, however long it is
    end, open_ = _best_end(rest[: fits + 1 + room], fits, fence, room, unit)
    piece, after = rest[:end], rest[end:]
    if open_ is None:
        return head + piece.rstrip(), after.lstrip("\n") if piece.endswith("\n") else after.lstrip(), None
    body = piece.removesuffix("\n")
    after = after.removeprefix("\n") if not piece.endswith("\n") else after
    line, _, following = after.partition("\n")
    if _closes(line, open_):  # the block ends right here: nothing is to be opened again
        return head + body + open_.closing, following.lstrip("\n"), None
    return head + body + open_.closing, after, open_


def _prefix(text: str, room: int, unit: MessageUnit) -> int:
    """Return how many code points of a text fit."""
    if unit == "characters":
        return min(len(text), room)
    for at, char in enumerate(text):
        room -= _width(char, unit)
        if room < 0:
            return at
    return len(text)


def _best_end(
    rest: str, fits: int, fence: _Fence | None, room: int, unit: MessageUnit
) -> tuple[int, _Fence | None]:
    """Return where a message ends best, at most at `fits`, and the code block that is open there."""
    lines = list(_lines(rest, fits, fence, room))
    sizes = _Sizes(rest, unit)

    def possible(end: int, open_: _Fence | None) -> bool:
        extra = 0 if open_ is None else length_of(open_.closing, unit)
        return 0 < end <= fits and sizes.of(end) + extra <= room

    levels = (_paragraphs(rest, lines), _line_ends(lines), _sentences(rest, lines), _words(rest, lines))
    candidates = [[one for one in level if possible(*one)] for level in levels]
    for least in (fits // _EARLIEST, 0):
        for level in candidates:
            best = max(level, default=(0, None), key=lambda one: one[0])
            if best[0] > least:
                return best
    for end in range(fits, 0, -1):
        open_ = _open_at(lines, end)
        if possible(end, open_) and is_boundary(rest, end):
            return end, open_
    for end in range(fits, 0, -1):  # one character of a reader is longer than a message
        open_ = _open_at(lines, end)
        if possible(end, open_):
            return end, open_
    return max(1, fits), None


class _Sizes:
    """Lengths of the beginnings of a text."""

    def __init__(self, text: str, unit: MessageUnit) -> None:
        self._text = text
        self._unit = unit
        self._known = [0]

    def of(self, end: int) -> int:
        """Return the length of the first `end` code points."""
        if self._unit == "characters":
            return end
        while len(self._known) <= end:
            self._known.append(self._known[-1] + _width(self._text[len(self._known) - 1], self._unit))
        return self._known[end]


class _Line(Record):
    """A line, from `start` to before its line end. `within`: the code block that its text belongs to;
    `after`: the one that is open behind it.
    """

    start: int
    end: int
    within: _Fence | None
    after: _Fence | None
    is_fence: bool


def _lines(text: str, until: int, fence: _Fence | None, room: int) -> Iterator[_Line]:
    """Yield the lines that begin before `until`."""
    start = 0
    while start <= until:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end]
        after, is_fence = fence, False
        if fence is not None:
            if _closes(line, fence):
                after, is_fence = None, True
        elif (opened := _opened(line, room)) is not None:
            after, is_fence = opened, True
        yield _Line(start, end, fence, after, is_fence)
        fence, start = after, end + 1


def _opened(line: str, room: int) -> _Fence | None:
    match = _FENCE.fullmatch(line)
    if match is None or ("`" in match["info"] and match["mark"][0] == "`"):
        return None
    if len(line.encode("utf-8", "surrogatepass")) > room // 4:  # no language has such a name
        return None
    return _Fence(line, match["mark"])


def _closes(line: str, fence: _Fence) -> bool:
    mark = line.strip(" ")
    return (
        len(line) - len(line.lstrip(" ")) < 4
        and len(mark) >= len(fence.mark)
        and not mark.strip(fence.mark[0])
    )


def _open_at(lines: list[_Line], end: int) -> _Fence | None:
    """Return the code block that is open after `end` code points."""
    found: _Fence | None = None
    for line in lines:
        if line.start >= end:
            break
        found = line.after if end > line.end or (line.is_fence and line.after is None) else line.within
    return found


def _paragraphs(text: str, lines: list[_Line]) -> Iterator[tuple[int, _Fence | None]]:
    """Yield the ends of paragraphs, and the beginnings of code blocks."""
    for line in lines:
        if line.within is None and line.start and (not text[line.start : line.end].strip() or line.after):
            yield line.start, None
        elif line.is_fence and line.after is None:
            yield line.end, None


def _line_ends(lines: list[_Line]) -> Iterator[tuple[int, _Fence | None]]:
    for line in lines:
        if not (line.is_fence and line.after is not None):  # not right behind the line that opens a block
            yield line.end, line.after


def _sentences(text: str, lines: list[_Line]) -> Iterator[tuple[int, _Fence | None]]:
    for line in lines:
        if line.within is None and not line.is_fence:
            for match in _SENTENCE.finditer(text, line.start, line.end):
                yield match.end(), None


def _words(text: str, lines: list[_Line]) -> Iterator[tuple[int, _Fence | None]]:
    for line in lines:
        if not line.is_fence:
            for at in range(line.start + 1, line.end):
                if text[at] in " \t" and text[at - 1] not in " \t":
                    yield at, line.within


_ZWJ = "\u200d"


def is_boundary(text: str, at: int) -> bool:
    """Whether two neighbouring code points belong to two characters of a reader (extended grapheme clusters,
    UAX 29, but for scripts that prepend marks).
    """
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before in "\r\n" or after in "\r\n":
        return before + after != "\r\n"
    kind = unicodedata.category(after)
    joined = before == _ZWJ and kind in {"So", "Sk"}
    if joined or after == _ZWJ or kind[0] == "M" or _extends(ord(after)):
        return False
    if _is_regional(before) and _is_regional(after):
        count = 0
        while count < at and _is_regional(text[at - 1 - count]):
            count += 1
        return count % 2 == 0
    return not _is_one_syllable(ord(before), ord(after))


def _extends(code: int) -> bool:
    """Whether a code point is a skin tone, a tag, or a non-joiner."""
    return 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F or code == 0x200C


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_one_syllable(before: int, after: int) -> bool:
    """Whether two code points are parts of one Korean syllable."""
    leads, vowels = 0x1100 <= before <= 0x115F, 0x1160 <= after <= 0x11A7
    if leads and (0x1100 <= after <= 0x115F or vowels or 0xAC00 <= after <= 0xD7A3):
        return True
    open_syllable = 0xAC00 <= before <= 0xD7A3 and (before - 0xAC00) % 28 == 0
    if (open_syllable or 0x1160 <= before <= 0x11A7) and (vowels or 0x11A8 <= after <= 0x11FF):
        return True
    return (0xAC00 <= before <= 0xD7A3 or 0x11A8 <= before <= 0x11FF) and 0x11A8 <= after <= 0x11FF
