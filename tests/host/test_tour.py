"""The tour names files and symbols of the code: each of them exists, where the tour says so."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOST = ROOT / "packages" / "host" / "src" / "hostler"
DOCS = ROOT / "docs"
TOUR = (DOCS / "tour.md").read_text()
QUOTED = [word.strip() for word in re.findall(r"`([^`\n]+)`", TOUR)]
NOT_CODE = {
    "POST /v1/events",
    "run/start",
    "run/result",
    "run/end",
    "event_id",
    "Last-Event-ID",
    "ctx.history.page",
    "ctx.states.set",
    "paused",
}
"""Words of the wire and of runners; the protocol's own tests know them."""
FOLDERS = {word for word in QUOTED if word.endswith("/")}
FILES = sorted({word for word in QUOTED if re.search(r"\.(py|sql)$", word)})
NAMES = sorted(set(QUOTED) - NOT_CODE - FOLDERS - set(FILES) - {"packages/host/src/hostler/"})


def place(name: str) -> Path:
    return ROOT / name if name.startswith("packages/") else HOST / name


@functools.cache
def symbols() -> set[str]:
    """Every function, class, method (`Class.method`), constant and `module.function` of the files named."""
    found: set[str] = set()
    for path in (place(name) for name in FILES if name.endswith(".py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found |= {node.name, f"{path.stem}.{node.name}"}
            if isinstance(node, ast.ClassDef):
                inner = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
                found |= {name for n in inner for name in (n.name, f"{node.name}.{n.name}")}
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def test_the_tour_names_what_it_shows() -> None:
    assert len(FILES) > 30
    assert len(NAMES) > 25


def test_every_file_and_folder_of_the_tour_exists() -> None:
    assert [name for name in FILES if not place(name).is_file()] == []
    assert [name for name in sorted(FOLDERS) if not place(name).is_dir()] == []


def test_every_name_of_the_tour_is_in_one_of_its_files() -> None:
    assert set(NAMES) - symbols() <= {"Tx"}


def test_every_test_that_the_security_page_counts_on_exists() -> None:
    named = set(re.findall(r"`(tests/[^`]+\.py)`", (DOCS / "security.md").read_text()))
    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text()
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)
    missing = [target for target in targets if not (DOCS / target).exists()]
    assert [name for name in missing if name != "performance.md"] == []
