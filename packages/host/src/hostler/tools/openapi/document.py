"""Read OpenAPI documents to plain JSON, and resolve references in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from hostler.domain.record import Record
from hostler.tools.openapi.limits import (
    MAX_DOCUMENT_BYTES,
    MAX_DOCUMENT_DEPTH,
    MAX_DOCUMENT_NODES,
    MAX_REFERENCES,
    MAX_YAML_BYTES,
)
from hostler.tools.openapi.yaml_loader import read_yaml


class DocumentError(ValueError):
    """A document, or a part of one, cannot be used. The text is a sentence without its full stop."""


class Document(Record):
    """A document as plain JSON: keys of mappings are texts, and there are no cycles."""

    root: Mapping[str, Any]
    is_3_0: bool

    def resolve(self, part: Any) -> Any:
        """Return a part with references followed. DocumentError if they are broken or circular."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(part, Mapping) or not isinstance(part.get("$ref"), str):
                return part
            part = self.at(part["$ref"])
        raise DocumentError("its references lead in circles")

    def mapping(self, part: Any) -> Mapping[str, Any]:
        """Resolve a part that must be a mapping; None gives an empty one. DocumentError."""
        found = self.resolve(part)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            raise DocumentError("a mapping is expected where there is something else")
        return found

    def listed(self, part: Any) -> list[Any]:
        """Resolve a part that must be a list; None gives an empty one. DocumentError."""
        found = self.resolve(part)
        if found is None:
            return []
        if not isinstance(found, list):
            raise DocumentError("a list is expected where there is something else")
        return found

    def at(self, reference: str) -> Any:
        """Return the part at a local reference. DocumentError."""
        if reference != "#" and not reference.startswith("#/"):
            raise DocumentError(f"it refers to another document: {reference[:100]!r}")
        found: Any = self.root
        for step in reference[2:].split("/") if len(reference) > 1 else ():
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isascii() and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise DocumentError(f"it refers to what is not there: {reference[:100]!r}")
        return found


def read_document(data: bytes) -> Document:
    """Read a document in JSON or YAML. DocumentError."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"it has over {MAX_DOCUMENT_BYTES:,} bytes")
    root = _plain(_parsed(data))
    if not isinstance(root, dict):
        raise DocumentError("it is no mapping")
    version = root.get("openapi")
    if not isinstance(version, str) or not version.startswith(("3.0", "3.1")):
        stated = version if version is not None else root.get("swagger")
        raise DocumentError(f"it is of version {stated!r:.40}; 3.0 and 3.1 can be read")
    if not isinstance(root.get("paths", {}), dict):
        raise DocumentError("its paths are no mapping")
    return Document(root, version.startswith("3.0"))


def _parsed(data: bytes) -> Any:
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        try:
            return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
        except RecursionError:
            raise DocumentError("it is nested too deep") from None
        except UnicodeDecodeError as error:
            raise DocumentError(f"it is no UTF-8: {error.reason} at byte {error.start}") from None
        except msgspec.DecodeError as error:
            if len(data) > MAX_YAML_BYTES:
                raise DocumentError(f"it is no JSON: {error}") from None
    if len(data) > MAX_YAML_BYTES:
        raise DocumentError(f"as YAML it may have {MAX_YAML_BYTES:,} bytes; give it as JSON")
    try:
        return read_yaml(data, MAX_DOCUMENT_DEPTH, MAX_DOCUMENT_NODES)
    except ValueError as error:
        raise DocumentError(str(error)) from None


def _plain(root: Any) -> Any:
    """Copy with texts as keys. Values repeated by YAML aliases count each time towards the limit."""
    count = 0

    def copied(part: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if depth > MAX_DOCUMENT_DEPTH:
            raise DocumentError(f"it is nested over {MAX_DOCUMENT_DEPTH} levels deep")
        if count > MAX_DOCUMENT_NODES:
            raise DocumentError(f"it has over {MAX_DOCUMENT_NODES:,} values")
        if isinstance(part, dict):
            return {str(key): copied(value, depth + 1) for key, value in part.items()}
        if isinstance(part, list):
            return [copied(value, depth + 1) for value in part]
        return part

    return copied(root, 0)
