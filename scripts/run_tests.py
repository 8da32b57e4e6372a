"""Run the tests, as CI does: what fails among all the others is tried once more, alone, and named.

    python scripts/run_tests.py [arguments of pytest]

Exits with 0 when every test passed, at the first or at its second try. docs/decisions/a-second-try-in-ci.md
says why there is one. Within pytest this file is the plugin that notes what failed and picks that out again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MOST_SECOND_TRIES = 5
"""More failures than that are no accident."""
NOTES, WANTED = "HOSTLER_TESTS_FAILED", "HOSTLER_TESTS_WANTED"
"""Variables that name a file: where to note what fails; which tests to run, if not all."""


def main(arguments: list[str]) -> int:
    """Run pytest, and where few tests failed, those again; the exit status."""
    with tempfile.TemporaryDirectory(prefix="hostler-tests-") as name:
        first, second = Path(name, "first"), Path(name, "second")
        status = _run_pytest(arguments, {NOTES: str(first)})
        failed = _noted(first)
        if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= MOST_SECOND_TRIES:
            return status
        _say("THESE FAILED, AND ARE TRIED ONCE MORE, ALONE", failed)
        status = _run_pytest([*arguments, "-n0"], {NOTES: str(second), WANTED: str(first)})
        if status != 0:
            _say("THESE FAILED TWICE", _noted(second))
            return status
        _say("UNSTEADY: THESE FAILED AMONG THE OTHERS AND PASSED ALONE; MEND THEM", failed)
        return 0


def _run_pytest(arguments: list[str], notes: dict[str, str]) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), environment.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "-p", Path(__file__).stem, *arguments]
    return subprocess.run(command, check=False, env={**environment, **notes, "PYTHONPATH": path}).returncode


def _noted(path: Path) -> list[str]:
    """The tests that are named in a file, each once."""
    return sorted(set(path.read_text("utf-8").splitlines())) if path.exists() else []


def _say(headline: str, tests: list[str]) -> None:
    lines = ["", "!" * 78, headline, *(f"  {test}" for test in tests), "!" * 78, ""]
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what failed; where tests are spread over processes, in the one that gathers the reports."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ and NOTES in os.environ:
        with Path(os.environ[NOTES]).open("a", encoding="utf-8") as notes:
            notes.write(f"{report.nodeid}\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not wanted; a wanted test that is not there any more is a failure of its own."""
    if WANTED not in os.environ:
        return
    wanted = set(_noted(Path(os.environ[WANTED])))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
    items[:] = [item for item in items if item.nodeid in wanted]
    if gone := wanted - {item.nodeid for item in items}:
        raise pytest.UsageError(f"these failed and are not found any more: {sorted(gone)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
