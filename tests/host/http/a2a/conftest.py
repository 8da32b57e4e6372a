"""A host with an agent that plays, and both bindings of A2A."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.dialects.a2a import BINDINGS
from support.dialects.players import playing
from support.http_host import Served


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Served]:
    async with playing(tmp_path) as made:
        yield made


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)
