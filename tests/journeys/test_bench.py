"""Every part of the bench still measures something. No speed is asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = [
    "runs",
    "facts",
    "timeline",
    "calls",
    "durable",
    "sse",
    "dialects",
    "starting",
    "memory",
    "histories",
    "sealed",
]
TITLES = [
    *("Whole runs", "Facts", "The timeline", "Host calls", "Durable runs"),
    *("Event streams", "Streams in dialects", "Start-up", "Memory", "A long past", "Encryption at rest"),
]
SECONDS = 300


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)


@pytest.mark.timeout(SECONDS + 10)
def test_every_part_measures() -> None:
    """In one process, as most of what a quick part takes is to start and to import."""
    done = bench("--quick")
    assert done.returncode == 0, done.stderr[-4000:]
    measured = dict.fromkeys(TITLES, 0)
    part = ""
    for line in done.stdout.splitlines():
        assert " nan " not in line
        assert " inf " not in line
        if line.startswith("  "):
            measured[part] += 1
        elif line:
            part = line
    assert measured.keys() == set(TITLES)
    assert all(measured.values()), measured


def test_all_parts_are_tried_here() -> None:
    done = bench("--only", "no-such-part")
    assert done.returncode == 2
    assert all(f"'{part}'" in done.stderr for part in PARTS)
    assert done.stderr.count("'") == 2 * len(PARTS) + 2
