"""docs/security.md claims nothing without a test, and has every row of the release gate.

That it is what the tests claim is checked with the other generated pages (tests/test_house.py).
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

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


# -- how the page is written --------------------------------------------------------------------------

TABLE = """# Page

| what holds | tests |
| --- | --- |
| Links lead nowhere. | <!-- gate: links --> stale |
| A, and | B. | <!-- gate: many --> |

Prose | of another kind |
"""
TESTS = """
import pytest
pytestmark = [pytest.mark.gate("links"), pytest.mark.timeout(5)]
@pytest.mark.gate("many", "links")
async def test_a(): ...
def test_b(): ...
"""


def page_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("security_page", ROOT / "scripts" / "security_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tests_of_a_row_are_those_that_claim_it(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "test_x.py").write_text(TESTS)
    (tmp_path / "test_y.py").write_text("def test_c(): ...  # pytest.mark.gate is only spoken of")
    writer = page_writer()
    claims = writer.claims(tmp_path)
    assert claims == {
        "links": ["tests/host/test_x.py", "tests/host/test_x.py::test_a"],
        "many": ["tests/host/test_x.py::test_a"],
    }
    written = writer.with_tests(TABLE, claims)
    assert "| Links lead nowhere. | <!-- gate: links --> `tests/host/test_x.py`, `tests/host/" in written
    assert "| A, and | B. | <!-- gate: many --> `tests/host/test_x.py::test_a` |" in written
    assert writer.with_tests(written, claims) == written
    assert "stale" not in written


@pytest.mark.parametrize(
    ("row", "claims", "problem"),
    [
        ("| Nobody shows it. | `tests/x.py` |", {}, "names no gate"),
        ("| Nobody shows it. | <!-- gate: alone --> `tests/x.py` |", {}, "no test claims the gate 'alone'"),
        ("| A. | <!-- gate: links --> |", {}, "two rows have the gate 'links'"),
        ("", {"gone": ["tests/x.py"]}, "has no row for: gone"),
    ],
)
def test_rows_and_claims_that_stand_alone_are_refused(
    row: str, claims: dict[str, list[str]], problem: str
) -> None:
    page = TABLE.replace("\n\nProse", f"\n{row}\n\nProse" if row else "\n\nProse")
    with pytest.raises(ValueError, match=problem):
        page_writer().with_tests(page, {"links": ["a"], "many": ["b"], **claims})


@pytest.mark.parametrize(
    ("module", "who"),
    [
        ('import pytest\npytestmark = pytest.mark.gate("links")\ndef helps(): ...', "the module"),
        ('import pytest\n@pytest.mark.gate("links")\ndef helps(): ...\ndef test_a(): ...', "helps"),
    ],
)
def test_a_claim_of_what_is_no_test_is_refused(tmp_path: Path, module: str, who: str) -> None:
    (tmp_path / "test_x.py").write_text(module)
    with pytest.raises(ValueError, match=f"'links' is claimed by no test: {who}"):
        page_writer().claims(tmp_path)


def test_each_part_of_the_release_gate_has_its_own_rows() -> None:
    found = [line[3:] for line in PAGE.splitlines() if line.startswith("## ")]
    assert found[: len(SECTIONS)] == SECTIONS
