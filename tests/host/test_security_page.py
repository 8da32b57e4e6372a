"""docs/security.md claims nothing without a test, and has every row of the release gate."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
SECTIONS = [
    "Path isolation",
    "Permission boundary",
    "Secret handling",
    "MCP policy",
    "Skill policy",
    "Process isolation",
    "State life cycle",
    "Audit",
    "Admin control",
    "Test matrix",
]
NAMED = re.compile(r"`(tests/[^`]+)`")


@cache
def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The rows of its table, without the head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("title", SECTIONS)
def test_every_row_names_tests_and_every_section_what_is_left(title: str) -> None:
    assert rows(title), title
    for row in rows(title):
        assert len(row) == 2, row
        assert NAMED.findall(row[1]), row
    assert "**Left to the operator**: " in section(title)


def test_every_test_that_is_named_exists() -> None:
    for named in sorted(set(NAMED.findall(PAGE))):
        path, _, name = named.partition("::")
        assert (ROOT / path).is_file(), named
        if name:
            defined = rf"^(?:async )?def {name}\("
            assert re.search(defined, (ROOT / path).read_text("utf-8"), re.MULTILINE), named
