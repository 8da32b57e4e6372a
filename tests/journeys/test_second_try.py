"""CI tries a few failed tests once more: an accident passes and is named, a fault fails twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "run_tests.py"
INI = "[pytest]\naddopts = -q -p no:cacheprovider -p no:hypothesispytest\n"
SUITE = """
import pathlib

import pytest


def note(name):
    with pathlib.Path("ran").open("a") as ran:
        ran.write(name + "\\n")


def test_steady():
    note("steady")


@pytest.mark.parametrize("text", ["a::b [c] '", "\\u00e9"])
def test_accident(text):
    note("accident")
    marker = pathlib.Path(f"tried-{ord(text[0])}")
    tried = marker.exists()
    marker.touch()
    assert tried


@pytest.mark.skipif(not pathlib.Path("faulty").exists(), reason="all is well")
def test_fault():
    note("fault")
    raise AssertionError("every time")


@pytest.mark.parametrize("number", range(int(pathlib.Path("many").read_text())))
def test_many(number):
    note("many")
    raise AssertionError("every time")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "many").write_text("0")
    return tmp_path


def _run(suite: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """Exit status, output, and the tests that were begun."""
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, check=False, cwd=suite, capture_output=True, text=True, timeout=100)
    ran = suite / "ran"
    return done.returncode, done.stdout + done.stderr, ran.read_text().split() if ran.exists() else []


def test_an_accident_passes_the_second_time_and_is_named(suite: Path) -> None:
    status, told, ran = _run(suite, "-n2")
    assert status == 0, told
    assert sorted(ran) == ["accident"] * 4 + ["steady"], "only what failed is tried again"
    unsteady = told.partition("UNSTEADY")[2]
    assert "test_accident[a::b [c] ']" in unsteady
    assert unsteady.count("test_suite.py::") == 2
    assert _run(suite)[0] == 0


def test_a_fault_fails_twice(suite: Path) -> None:
    (suite / "faulty").touch()
    status, told, ran = _run(suite)
    assert status == 1, told
    assert ran.count("fault") == 2
    assert told.partition("THESE FAILED TWICE")[2].count("test_suite.py::test_fault") >= 1
    assert "UNSTEADY" not in told


def test_many_failures_are_no_accident(suite: Path) -> None:
    (suite / "many").write_text("4")
    status, told, ran = _run(suite)
    assert (status, ran.count("many"), ran.count("accident")) == (1, 4, 2), told
    assert "ONCE MORE" not in told


def test_what_is_no_failure_of_a_test_is_not_tried_again(suite: Path) -> None:
    (suite / "test_suite.py").write_text("import nothing_of_that_name\n")
    status, told, ran = _run(suite)
    assert status in (1, 2), told
    assert ran == []
    assert "ONCE MORE" not in told
    assert _run(suite, "test_gone.py")[0] == 4
