"""A host with the agent `player`, and a front end of the AI SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.dialects.ai_sdk import AI, Front
from support.dialects.players import playing
from support.node_clients import node_clients


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    node = await asyncio.to_thread(node_clients, AI)
    async with playing(tmp_path / "data") as served:
        yield Front(served, node, tmp_path)
