"""Read the XML of WeCom into plain values, safely: no document types, entities or deep nesting."""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

MAX_DEPTH = 8
MAX_ELEMENTS = 2_000
"""WeCom's messages have some dozen elements, three deep."""


class UnreadableError(Exception):
    """It is no XML of WeCom. The text says why."""


class _Reader:
    def __init__(self) -> None:
        self.root: tuple[str, Any] | None = None
        self._open: list[tuple[str, dict[str, Any], list[str]]] = []
        self._count = 0

    def begin(self, name: str, _: Any) -> None:
        self._count += 1
        if len(self._open) >= MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise UnreadableError("it has too many elements, or too deep")
        self._open.append((name, {}, []))

    def text(self, text: str) -> None:
        self._open[-1][2].append(text)

    def end(self, _: str) -> None:
        name, inner, texts = self._open.pop()
        value: Any = inner or "".join(texts)
        if not self._open:
            self.root = (name, value)
            return
        siblings = self._open[-1][1]
        if name not in siblings:
            siblings[name] = value
        elif isinstance(siblings[name], list):
            siblings[name].append(value)
        else:
            siblings[name] = [siblings[name], value]

    def refuse(self, *_: Any) -> None:
        raise UnreadableError("it declares a document type, which WeCom never does")


def read_fields(content: bytes) -> dict[str, Any]:
    """Return the elements in `<xml>`: texts, objects of further elements, lists where a name is repeated.

    Raises UnreadableError.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise UnreadableError(f"it is no XML: {error}"[:300]) from None
    if reader.root is None or reader.root[0] != "xml" or not isinstance(reader.root[1], dict):
        raise UnreadableError("it is no element <xml> with elements in it")
    return reader.root[1]


def text_of(fields: dict[str, Any], name: str) -> str | None:
    """Return the text of an element; None if it is empty, missing, or no text."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None
