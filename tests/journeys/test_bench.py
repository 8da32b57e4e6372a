"""Every part of the bench still measures something. No speed is asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ["runs", "facts", "calls", "durable", "sse", "starting", "memory", "histories"]
SECONDS = 300


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)


@pytest.mark.timeout(SECONDS + 10)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_measures(part: str) -> None:
    done = bench("--quick", "--only", part)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("  ")]
    assert rows
    assert not any(" nan " in row or " inf " in row for row in rows)


def test_all_parts_are_tried_here() -> None:
    done = bench("--only", "no-such-part")
    assert done.returncode == 2
    assert all(f"'{part}'" in done.stderr for part in PARTS)
    assert done.stderr.count("'") == 2 * len(PARTS) + 2
