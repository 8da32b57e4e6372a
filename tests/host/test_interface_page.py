"""docs/interfaces.md claims nothing without a test, and leaves out no cell without a reason."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST = "import pytest\n@pytest.mark.shows({})\ndef test_a(): ...\n"


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    return importlib.import_module("interface_page")


def test_a_test_shows_each_cell_of_each_interface_that_it_names(tmp_path: Path, writer: ModuleType) -> None:
    (tmp_path / "test_x.py").write_text(TEST.format('"a2a", "mcp", "text", "usage"'))
    names = {("a2a", "text"), ("a2a", "usage"), ("mcp", "text"), ("mcp", "usage")}
    assert writer.shown(tmp_path) == {one: ["tests/test_x.py::test_a"] for one in names}


@pytest.mark.parametrize("claim", ['"a2a"', '"text"', '"a2a", "text", "txet"'])
def test_a_claim_of_no_cell_is_refused(tmp_path: Path, writer: ModuleType, claim: str) -> None:
    (tmp_path / "test_x.py").write_text(TEST.format(claim))
    with pytest.raises(ValueError, match="test_a: shows"):
        writer.shown(tmp_path)


def test_a_cell_has_a_test_or_a_reason_and_not_both(tmp_path: Path, writer: ModuleType) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    with pytest.raises(ValueError, match="openai-chat, text: no test"):
        list(writer.interface_page(tmp_path))
    both = ", ".join(f'"{name}"' for name in [*writer.INTERFACES, *writer.CELLS])
    (tests / "test_x.py").write_text(TEST.format(both))
    with pytest.raises(ValueError, match="client-tools: a test and a reason"):
        list(writer.interface_page(tmp_path))


def test_the_page_is_what_the_tests_say(writer: ModuleType) -> None:
    page = (ROOT / "docs" / "interfaces.md").read_text("utf-8")
    for part in writer.interface_page(ROOT):
        assert part in page
