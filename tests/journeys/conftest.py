"""Fixtures of the journeys."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import CommandLine


@pytest.fixture
def hostler(tmp_path: Path) -> CommandLine:
    """The command line over a data directory of its own, in an empty folder."""
    work = tmp_path / "work"
    work.mkdir()
    return CommandLine(tmp_path / "data", work)
