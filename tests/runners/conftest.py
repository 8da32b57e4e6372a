"""Makes the shipped runners importable, each by the package in its folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ready_agents

RUNNERS = Path(__file__).parents[2] / "runners"

for folder in sorted(RUNNERS.iterdir()):
    if (folder / "hostler.yaml").is_file():
        sys.path.insert(0, str(folder))


@pytest.fixture
def forked_agents() -> Iterator[None]:
    """Scripted coding agents are forks."""
    with ready_agents.forked_agents():
        yield
