"""Read documents: their bytes as paragraphs below headings. Only text formats; what cannot be read says why.

Everything here runs on a thread, on bytes that anybody may have sent: the time is linear in their number, and
what nests is bounded. PDF and office documents are no texts: they are refused by their type.
"""

from __future__ import annotations

import csv
import io
import json
import mimetypes
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hostler.domain.passages import MAX_HEADING_CHARS, Paragraph, markdown_paragraphs, plain_paragraphs
from hostler.tools.builtin.html_text import page_text
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_JSON_DEPTH

MAX_CELLS = 1_000
"""Columns of a table."""
MAX_CELL_CHARS = 1_000_000
READABLE = (
    "plain text, Markdown (.md), HTML (.html), CSV (.csv), TSV (.tsv), JSON (.json), JSON lines (.jsonl), "
    "and other text/* types"
)
"""What can be read, for error messages."""
_BY_ENDING = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".log": "text/plain",
    ".rst": "text/plain",
    ".org": "text/plain",
    ".adoc": "text/plain",
    ".htm": "text/html",
    ".html": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".xml": "application/xml",
}
_CHARSETS = {
    "utf-8",
    "utf8",
    "us-ascii",
    "ascii",
    "utf-16",
    "utf-16le",
    "utf-16be",
    "iso-8859-1",
    "iso-8859-15",
    "windows-1252",
    "windows-1251",
    "koi8-r",
    "gb2312",
    "gbk",
    "gb18030",
    "big5",
    "shift_jis",
    "euc-jp",
    "euc-kr",
}


class UnreadableError(InvalidArgumentError):
    """A document cannot be read; the message says why, and what would be right."""


def type_of(name: str, content_type: str | None) -> str | None:
    """Return the type of a document, with its charset if it names one; None if it cannot be read.

    Without a type, or with that of any bytes, the ending of the name decides.
    """
    kind, _, rest = (content_type or "").partition(";")
    kind = kind.strip().lower()
    if kind in {"", "application/octet-stream", "application/x-www-form-urlencoded"}:
        ending = posixpath.splitext(name.lower())[1]
        kind = _BY_ENDING.get(ending) or mimetypes.guess_type(name)[0] or ""
    if _reader_of(kind) is None:
        return None
    charset = _charset_in(rest)
    return kind if charset is None else f"{kind}; charset={charset}"


def read(data: bytes, mime_type: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a document. UnreadableError, also while they are read."""
    kind, _, rest = mime_type.partition(";")
    reader = _reader_of(kind.strip())
    if reader is None:
        raise UnreadableError(f"{kind[:80]!r} cannot be read; what can: {READABLE}")
    yield from reader(_text_of(data, _charset_in(rest)))


def _charset_in(parameters: str) -> str | None:
    """Return the charset that parameters of a type name, or None. InvalidArgumentError if it is unknown."""
    for parameter in parameters.split(";"):
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
            if charset not in _CHARSETS:
                raise InvalidArgumentError(
                    f"the charset {charset[:40]!r} is unknown: send UTF-8, or name one of "
                    f"{', '.join(sorted(_CHARSETS))}"
                )
            return charset
    return None


def _text_of(data: bytes, charset: str | None) -> str:
    if charset is None and data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        charset = "utf-16"
    if charset in {None, "utf-8", "utf8"}:
        charset = "utf-8-sig"
    try:
        text = data.decode(charset)
    except UnicodeDecodeError as error:
        named = "UTF-8" if charset == "utf-8-sig" else charset
        raise UnreadableError(
            f"the text is not {named}: byte {error.start:,} does not fit; send it as UTF-8, or name its "
            "charset in the Content-Type"
        ) from None
    if "\x00" in text:
        raise UnreadableError("it holds NUL characters, so it is no text: send the text itself")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _reader_of(kind: str) -> Callable[[str], Iterator[Paragraph]] | None:
    known: Mapping[str, Callable[[str], Iterator[Paragraph]]] = {
        "text/markdown": markdown_paragraphs,
        "text/x-markdown": markdown_paragraphs,
        "text/html": _html,
        "application/xhtml+xml": _html,
        "text/csv": lambda text: _table(text, ","),
        "text/tab-separated-values": lambda text: _table(text, "\t"),
        "application/json": _json,
        "application/x-ndjson": _json_lines,
        "application/jsonl": _json_lines,
        "application/yaml": plain_paragraphs,
        "application/x-yaml": plain_paragraphs,
        "application/toml": plain_paragraphs,
        "application/xml": plain_paragraphs,
    }
    if kind in known:
        return known[kind]
    return plain_paragraphs if kind.startswith("text/") else None


def _html(text: str) -> Iterator[Paragraph]:
    page = page_text(text, "http://document.invalid/")
    if page.cut:
        raise UnreadableError(
            "the page has too many tags and pieces of text: split it into several documents"
        )
    title = " ".join(page.title.split())[:MAX_HEADING_CHARS]
    for one in markdown_paragraphs(page.text):
        yield one if one.heading or not title else Paragraph(one.text, title)


def _table(text: str, delimiter: str) -> Iterator[Paragraph]:
    """Yield the rows of a table, each with the names of its columns, which are in the first one."""
    before = csv.field_size_limit(MAX_CELL_CHARS)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names: list[str] | None = None
        for row in rows:
            if len(row) > MAX_CELLS:
                raise UnreadableError(
                    f"row {rows.line_num:,} has {len(row):,} columns; at most {MAX_CELLS:,}"
                )
            cells = [" ".join(cell.split()) for cell in row]
            if not any(cells):
                continue
            if names is None:
                names = cells
                continue
            named = [*names, *[""] * (len(cells) - len(names))]
            said = [
                f"{name}: {cell}" if name else cell for name, cell in zip(named, cells, strict=False) if cell
            ]
            yield Paragraph("\n".join(said))
        if names is not None and rows.line_num <= 1:
            yield Paragraph(", ".join(name for name in names if name))
    except csv.Error as error:
        raise UnreadableError(f"the table cannot be read: line {rows.line_num:,}: {error}") from None
    finally:
        csv.field_size_limit(before)


def _json(text: str) -> Iterator[Paragraph]:
    value = _decoded(text, "it")
    for one in value if isinstance(value, list) else [value]:
        yield Paragraph("\n".join(_said(one)))


def _json_lines(text: str) -> Iterator[Paragraph]:
    number, start = 0, 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        if line := text[start:end].strip():
            yield Paragraph("\n".join(_said(_decoded(line, f"line {number:,}"))))
        start = end + 1


def _decoded(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise UnreadableError(f"{what} is nested deeper than {MAX_JSON_DEPTH} levels") from None
    except ValueError as error:
        raise UnreadableError(f"{what} is no JSON: {error}") from None


def _said(value: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield a line for each text, number and boolean in a JSON value, with its place."""
    if depth > MAX_JSON_DEPTH:
        raise UnreadableError(f"it is nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _said(
                one, f"{path}.{key}"[:MAX_HEADING_CHARS] if path else key[:MAX_HEADING_CHARS], depth + 1
            )
    elif isinstance(value, list):
        for one in value:
            yield from _said(one, path, depth + 1)
    elif value is not None and value != "":
        said = str(value).lower() if isinstance(value, bool) else str(value)
        said = (
            said.encode("utf-8", "replace").decode().replace("\x00", "")
        )  # JSON may escape halves of pairs, and NUL
        yield f"{path}: {said}" if path else said
