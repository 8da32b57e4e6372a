"""The cost of checking a value against a JSON Schema, computed before the check.

References and alternatives can make a small schema take exponential time. This module counts the visits
without making them: for each place in the value, how often each subschema is visited. The count is an upper
bound, because it includes every alternative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_SCHEMA_NODES = 5_000
"""Subschemas of one schema."""
MAX_DEPTH = 64
"""Nesting of a schema, of a chain of its references, and of a value."""
CHARS_PER_STEP = 64
"""Characters that a pattern matches in the time of one visit."""
NAMES_PER_STEP = 8
"""Names or values in one keyword that are compared in the time of one visit."""

_HERE_ONE = ("not", "if", "then", "else")
_HERE_LIST = ("allOf", "anyOf", "oneOf")
_HERE_MAP = ("dependentSchemas", "dependencies")
_NAMED = ("properties",)
_ANY_KEY = ("additionalProperties", "unevaluatedProperties")
_ITEMS_ONE = ("items", "additionalItems", "contains", "unevaluatedItems")
_ITEMS_LIST = ("prefixItems", "items")
_DEFINITIONS = ("$defs", "definitions")
_REFUSED = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$anchor")


class SchemaError(ValueError):
    """A schema that cannot be used; the text is one sentence with the reason."""


@dataclass(slots=True)
class _Node:
    weight: int
    here: list[int] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    any_key: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    first_items: list[int] = field(default_factory=list)
    reference: str | None = None


class StepCounter:
    """Counts visits for one schema, given as plain JSON. Raises SchemaError if it is too large or refers
    outside."""

    def __init__(self, schema: Any) -> None:
        self._nodes: list[_Node] = []
        self._places: dict[str, int] = {}
        self._reach: dict[int, Counter[int]] = {}
        self._read(schema, "#", 0)
        for node in self._nodes:
            if node.reference is not None:
                node.here.append(self._place(node.reference))
        for index in range(len(self._nodes)):
            self._reached_from(index, 0)

    def count(self, value: Any, most: int) -> int | None:
        """Return an upper bound of the visits; None if it exceeds `most` or the value is nested too deep."""
        steps = 0
        waiting: list[tuple[Any, Counter[int], int]] = [(value, Counter({0: 1}), 0)]
        while waiting:
            part, heads, depth = waiting.pop()
            if depth > MAX_DEPTH:
                return None
            visits = self._visits(heads)
            size = 1 + len(part) // CHARS_PER_STEP if isinstance(part, str) else 1
            steps += size * sum(times * self._nodes[node].weight for node, times in visits.items())
            if steps > most:
                return None
            if isinstance(part, dict):
                for name, member in part.items():
                    waiting.append((member, self._at_key(visits, name), depth + 1))
                    if names := self._at_name(visits):
                        waiting.append((name, names, depth + 1))
            elif isinstance(part, list):
                waiting.extend((item, self._at_item(visits, n), depth + 1) for n, item in enumerate(part))
        return steps

    # -- reading the schema -----------------------------------------------------------------------

    def _read(self, schema: Any, place: str, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise SchemaError(f"it is nested over {MAX_DEPTH} levels deep")
        index = len(self._nodes)
        if index >= MAX_SCHEMA_NODES:
            raise SchemaError(f"it has over {MAX_SCHEMA_NODES:,} parts")
        node = _Node(1)
        self._nodes.append(node)
        self._places[place] = index
        if isinstance(schema, dict):
            self._read_keywords(node, schema, place, depth)
        elif not isinstance(schema, bool):
            raise SchemaError(f"at {place} is {type(schema).__name__}, where a schema is expected")
        return index

    def _read_keywords(self, node: _Node, schema: Mapping[str, Any], place: str, depth: int) -> None:
        for word in _REFUSED:
            if word in schema:
                raise SchemaError(f"{word} at {place} is not supported; use $ref into $defs")
        if depth and "$id" in schema:
            raise SchemaError(f"$id at {place}: only the whole schema may have one")
        node.weight += sum(len(v) for v in schema.values() if isinstance(v, list | dict)) // NAMES_PER_STEP

        def read(child: Any, *path: str) -> int:
            return self._read(child, "/".join([place, *(_escaped(part) for part in path)]), depth + 1)

        def read_list(word: str) -> list[int]:
            found = schema.get(word)
            return [read(one, word, str(n)) for n, one in enumerate(found)] if isinstance(found, list) else []

        def read_map(word: str) -> dict[str, int]:
            found = schema.get(word)
            schemas = found.items() if isinstance(found, dict) else ()
            return {name: read(one, word, name) for name, one in schemas if isinstance(one, dict | bool)}

        def read_ones(*words: str) -> list[int]:
            return [read(schema[word], word) for word in words if isinstance(schema.get(word), dict | bool)]

        node.here += read_ones(*_HERE_ONE)
        node.here += [one for word in _HERE_LIST for one in read_list(word)]
        node.here += [one for word in _HERE_MAP for one in read_map(word).values()]
        node.named = {name: one for word in _NAMED for name, one in read_map(word).items()}
        node.any_key = [*read_map("patternProperties").values(), *read_ones(*_ANY_KEY)]
        node.names = read_ones("propertyNames")
        node.items = read_ones(*_ITEMS_ONE)
        node.first_items = [one for word in _ITEMS_LIST for one in read_list(word)]
        for word in _DEFINITIONS:
            read_map(word)
        reference = schema.get("$ref")
        if reference is not None:
            node.reference = str(reference)

    def _place(self, reference: str) -> int:
        if not reference.startswith("#"):
            raise SchemaError(f"it refers to {reference[:100]!r}, outside of itself")
        found = self._places.get(reference)
        if found is None:
            raise SchemaError(f"it refers to {reference[:100]!r}, where there is no schema")
        return found

    # -- counting ---------------------------------------------------------------------------------

    def _reached_from(self, index: int, depth: int) -> Counter[int]:
        """Return how often each node is visited at the same place in the value, per visit of this one."""
        known = self._reach.get(index)
        if known is not None:
            if not known:
                raise SchemaError("it refers to itself without going deeper into the value")
            return known
        if depth > MAX_DEPTH:
            raise SchemaError(f"it has a chain of over {MAX_DEPTH} references")
        self._reach[index] = Counter()  # being worked on
        reached = Counter({index: 1})
        for child in self._nodes[index].here:
            reached.update(self._reached_from(child, depth + 1))
        self._reach[index] = reached
        return reached

    def _visits(self, heads: Counter[int]) -> Counter[int]:
        visits: Counter[int] = Counter()
        for head, times in heads.items():
            for node, each in self._reach[head].items():
                visits[node] += times * each
        return visits

    def _at_key(self, visits: Counter[int], name: str) -> Counter[int]:
        heads: Counter[int] = Counter()
        for index, times in visits.items():
            node = self._nodes[index]
            if name in node.named:
                heads[node.named[name]] += times
            for child in node.any_key:
                heads[child] += times
        return heads

    def _at_name(self, visits: Counter[int]) -> Counter[int]:
        heads: Counter[int] = Counter()
        for index, times in visits.items():
            for child in self._nodes[index].names:
                heads[child] += times
        return heads

    def _at_item(self, visits: Counter[int], number: int) -> Counter[int]:
        heads: Counter[int] = Counter()
        for index, times in visits.items():
            node = self._nodes[index]
            if number < len(node.first_items):
                heads[node.first_items[number]] += times
            for child in node.items:
                heads[child] += times
        return heads


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
