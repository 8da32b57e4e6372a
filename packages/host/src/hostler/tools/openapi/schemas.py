"""Convert schemas of a document to the JSON Schema of one tool, with referenced schemas under `$defs`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hostler.tools.openapi.document import Document, DocumentError
from hostler.tools.openapi.limits import MAX_PART_DESCRIPTION_CHARS, MAX_SCHEMA_PARTS

_ONE = ("not", "if", "then", "else", "items", "contains", "propertyNames", "additionalProperties")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
_NUMBERS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
_COUNTS = (
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "maxContains",
    "minContains",
)
_AS_IT_IS = ("title", "default", "enum", "const", "format", "pattern", "uniqueItems", "dependentRequired")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class SchemaWriter:
    """Converts the schemas of one operation. `definitions` has the referenced schemas, once all are written.

    Read-only properties, which are for responses, and keywords unknown to JSON Schema are left out.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._written: dict[str, Any] = {}
        self._parts = 0

    @property
    def definitions(self) -> dict[str, Any]:
        """The referenced schemas by name."""
        return dict(self._written)

    def write(self, schema: Any) -> Any:
        """Convert a schema. DocumentError if it cannot be JSON Schema."""
        written = self._write(schema)
        while missing := [ref for ref, name in self._names.items() if name not in self._written]:
            for reference in missing:
                self._written[self._names[reference]] = self._write(self._document.at(reference))
        return written

    def _write(self, schema: Any) -> Any:
        self._parts += 1
        if self._parts > MAX_SCHEMA_PARTS:
            raise DocumentError(f"its schemas have over {MAX_SCHEMA_PARTS:,} parts")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise DocumentError("a schema in it is no mapping")
        if isinstance(reference := schema.get("$ref"), str):
            return self._refer(reference, schema)
        written: dict[str, Any] = {}
        hidden = self._copy_named(schema, written)
        written |= {word: self._write(schema[word]) for word in _ONE if word in schema}
        for word in _MANY:
            if isinstance(parts := schema.get(word), list) and parts:
                written[word] = [self._write(part) for part in parts]
        written |= {word: schema[word] for word in _AS_IT_IS if word in schema}
        self._copy_bounds(schema, written)
        if isinstance(required := schema.get("required"), list):
            names = [name for name in required if isinstance(name, str) and name not in hidden]
            if names:
                written["required"] = list(dict.fromkeys(names))
        if isinstance(text := schema.get("description"), str) and text.strip():
            written["description"] = shortened(text, MAX_PART_DESCRIPTION_CHARS)
        self._copy_type(schema, written)
        return written

    def _refer(self, reference: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a reference; in 3.1 it may have a description."""
        self._document.at(reference)
        name = self._names.get(reference)
        if name is None:
            plain = _NOT_A_NAME.sub("_", reference.rpartition("/")[2])[:64] or "part"
            name, number = plain, 1
            while name in self._names.values():
                number += 1
                name = f"{plain}_{number}"
            self._names[reference] = name
        written = {"$ref": f"#/$defs/{name}"}
        if isinstance(text := schema.get("description"), str) and not self._document.is_3_0:
            written["description"] = shortened(text, MAX_PART_DESCRIPTION_CHARS)
        return written

    def _copy_named(self, schema: Mapping[str, Any], written: dict[str, Any]) -> set[str]:
        """Convert properties; return the names of those that are left out."""
        hidden: set[str] = set()
        for word in _NAMED:
            parts = schema.get(word)
            if not isinstance(parts, Mapping):
                continue
            kept: dict[str, Any] = {}
            for name, part in parts.items():
                if word == "properties" and isinstance(part, Mapping) and part.get("readOnly") is True:
                    hidden.add(name)
                else:
                    kept[name] = self._write(part)
            written[word] = kept
        return hidden

    def _copy_bounds(self, schema: Mapping[str, Any], written: dict[str, Any]) -> None:
        for word in (*_NUMBERS, *_COUNTS):
            value = schema.get(word)
            if isinstance(value, int | float) and not isinstance(value, bool):
                written[word] = value
        for exclusive, inclusive in (("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")):
            if schema.get(exclusive) is True and inclusive in written:  # as in 3.0
                written[exclusive] = written.pop(inclusive)

    def _copy_type(self, schema: Mapping[str, Any], written: dict[str, Any]) -> None:
        kind = schema.get("type")
        if isinstance(kind, str | list):
            written["type"] = kind
        if self._document.is_3_0 and schema.get("nullable") is True and isinstance(kind, str):
            written["type"] = [kind, "null"]
            if isinstance(values := written.get("enum"), list) and None not in values:
                written["enum"] = [*values, None]


def shortened(text: str, most: int) -> str:
    """Return text of a document for models: printable, and at most `most` characters."""
    plain = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text[: most * 2]).strip()
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."
