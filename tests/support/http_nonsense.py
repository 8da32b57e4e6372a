"""Nonsense for requests: texts, values of any kind, and bodies that a JSON Schema allows, or nearly."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

TEXTS = [
    *("", " ", "x", "same", "null", "true", "0", "-1", "1e309", "9" * 30, "a/b", "..", "%", "%%00", "_", "*"),
    *(
        "\x00",
        "a\x00b",
        "\n",
        "\r\nx: y",
        "é",
        "名前",
        "🙂",
        "\u202e",
        "a" * 3000,
        '"',
        "'",
        "'; DROP TABLE runs",
    ),
    *("plugin:test/puppet/default", "test/puppet", "puppet", "2026-01-01", "OR", 'NEAR("a")'),
    *("\ufeff", "\ud800"),
]


def value(dice: random.Random, depth: int = 0) -> Any:
    """Any JSON."""
    kind = dice.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return dice.choice([None, True, False])
    if kind == 1:
        return dice.choice([0, -1, 1, 2**53, 2**63, -(2**64), 10**40, 1.5, -0.0, 1e300])
    if kind in (2, 3, 4):
        return dice.choice(TEXTS)
    if kind == 5:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {dice.choice(TEXTS): value(dice, depth + 1) for _ in range(dice.randrange(4))}


def like(schema: dict[str, Any], document: dict[str, Any], dice: random.Random, depth: int = 0) -> Any:
    """Something that the schema allows, or nearly."""
    if dice.random() < 0.06 or depth > 6:
        return value(dice)
    if "$ref" in schema:
        return like(
            document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document, dice, depth
        )
    if "anyOf" in schema:
        return like(dice.choice(schema["anyOf"]), document, dice, depth + 1)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        wanted = set(schema.get("required", []))
        return {
            name: like(inner, document, dice, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if name in wanted or dice.random() < 0.4
        }
    if kind == "array":
        return [like(schema.get("items", {}), document, dice, depth + 1) for _ in range(dice.randrange(3))]
    if kind == "string":
        return dice.choice(TEXTS)
    if kind in ("integer", "number"):
        return dice.choice([schema.get("minimum", 0), 1, 7, 2**53, 0.25 if kind == "number" else 3])
    return dice.choice([True, False]) if kind == "boolean" else value(dice, 2)


def encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
