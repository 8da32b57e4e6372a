"""Manifests of plugins' tools: an invalid one does not hide the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.plugins.tool_list import MAX_DESCRIPTION_CHARS, MAX_TOOLS, MAX_TOOLS_BYTES, read_tools
from hostler_protocol.manifest import ToolList
from support.samples import JSON

pytestmark = pytest.mark.gate("plugins-in-trouble")

GOOD = {"name": "book", "description": "Books.", "parameters": {"type": "object"}, "effect": "idempotent"}


def listed(*manifests: Any) -> ToolList:
    return ToolList(tools=[msgspec.Raw(msgspec.json.encode(one)) for one in manifests])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({}, "name"),
        ({**GOOD, "effects": "pure"}, "unknown field `effects`"),
        ({**GOOD, "effect": "sometimes"}, "sometimes"),
        ({**GOOD, "approval": "never"}, "never"),
        ({**GOOD, "name": "a.b"}, "'a.b' is not a tool's name"),
        ({**GOOD, "name": ""}, "is not a tool's name"),
        ({**GOOD, "name": "x" * 65}, "at most 64"),
        ({**GOOD, "description": "x" * (MAX_DESCRIPTION_CHARS + 1)}, "characters"),
        ({**GOOD, "parameters": {"type": "array"}}, "must be an object"),
        ({**GOOD, "parameters": {"$ref": "https://example.com"}}, "outside of itself"),
        ({**GOOD, "output_schema": {"type": 5}}, "output_schema"),
        (5, "Expected `object`"),
    ],
)
def test_a_bad_manifest_is_skipped_with_a_reason(bad: Any, words: str) -> None:
    other = {**GOOD, "name": "other"}
    tools, warnings = read_tools(listed(other, bad, {**GOOD, "name": "last"}))
    assert list(tools) == ["other", "last"]
    (warning,) = warnings
    assert warning.startswith("tool 2 skipped: ")
    assert words in warning


def test_a_name_that_stands_twice_counts_once() -> None:
    tools, warnings = read_tools(listed(GOOD, {**GOOD, "effect": "pure"}))
    assert tools["book"].effect == "idempotent"
    assert warnings == ["tool 2 skipped: the name 'book' is used twice"]


def test_a_flood_of_tools_is_cut_and_told() -> None:
    tools, warnings = read_tools(listed(*({**GOOD, "name": f"t{n}"} for n in range(MAX_TOOLS + 50))))
    assert len(tools) == MAX_TOOLS
    assert warnings == [f"{MAX_TOOLS + 50} tools are listed; the first {MAX_TOOLS} count"]


def test_manifests_that_would_take_long_to_check_are_left_out() -> None:
    """At each start, so that a plugin that ends after it could keep the host busy."""
    large = {f"p{n}": {"type": "string"} for n in range(3000)}
    tools = [
        {**GOOD, "name": f"t{n}", "parameters": {"type": "object", "properties": large}} for n in range(60)
    ]
    size = len(msgspec.json.encode(tools[0]))
    kept, warnings = read_tools(listed(*tools))
    assert len(kept) == MAX_TOOLS_BYTES // size
    assert warnings == [f"tool {len(kept) + 1} and later ones skipped: over {MAX_TOOLS_BYTES:,} bytes in all"]


@given(st.lists(JSON | st.fixed_dictionaries({"name": JSON, "parameters": JSON}), max_size=4))
@settings(max_examples=100, deadline=None)
def test_whatever_is_listed_nothing_breaks(manifests: list[Any]) -> None:
    tools, warnings = read_tools(listed(GOOD, *manifests))
    assert tools["book"].name == "book"
    assert len(tools) + len(warnings) == len(manifests) + 1
