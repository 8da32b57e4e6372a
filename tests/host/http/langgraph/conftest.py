"""A host with the agent `player`, for tests of the LangGraph interface."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.dialects.players import playing
from support.http_host import Served


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with playing(tmp_path / "data") as made:
        yield made
