"""What one test has read is not masked in the text of another; what a fixture of both has read is masked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hostler.secrets.known_values import KNOWN, OutputRedactor, redact, remember
from support.known_secrets import forgetting

ROOT = Path(__file__).parents[3]
SHARED, OWN, ELSEWHERE = "a-shared-secret-of-a-host", "a-secret-of-one-test", "a-secret-of-one-module"
CONFTEST = """
from support.known_secrets import secrets_of_the_module, secrets_of_the_test
"""
FIRST = f"""
import pytest
from hostler.secrets.known_values import redact, remember

@pytest.fixture(scope="session")
def host():
    remember("{SHARED}")

@pytest.fixture(scope="module")
def desk(host):
    remember("{ELSEWHERE}")

@pytest.fixture
def text():
    return "{SHARED} {OWN} {ELSEWHERE}"

def test_1(desk, text):
    remember("{OWN}")
    assert redact(text) == "*** *** ***"

def test_2(desk, text):
    assert redact(text) == "*** {OWN} ***"

def test_3(desk, text):
    assert redact(text) == "*** {OWN} ***"
"""
SECOND = f"""
from test_first import host, text
from hostler.secrets.known_values import redact

def test_4(text):
    assert redact(text).endswith(" {OWN} {ELSEWHERE}")
"""


def test_a_test_begins_with_what_its_fixtures_have_read_and_no_more(tmp_path: Path) -> None:
    for name, text in (("conftest", CONFTEST), ("test_first", FIRST), ("test_second", SECOND)):
        (tmp_path / f"{name}.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        env={"PYTHONPATH": str(ROOT / "tests"), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_what_was_read_before_is_known_again_and_what_came_since_is_not() -> None:
    remember(SHARED)
    with forgetting(KNOWN):
        remember(OWN)
        assert redact(f"{SHARED} {OWN}") == "*** ***"
        assert OutputRedactor().take(f"{OWN}\n".encode()) == b"***\n"
    assert redact(f"{SHARED} {OWN}") == f"*** {OWN}"
    output = OutputRedactor()
    assert output.take(f"{OWN} {SHARED}\n".encode()) + output.end() == f"{OWN} ***\n".encode()
