"""A host for decisions that dialects have words for, and for those that they have not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.host.config import ConfigFile
from support.dialects.players import PLAYER, POLICY, player, playing
from support.http_host import Served
from support.trust import trusted

TOOLBOX = PLAYER.with_name("toolbox")


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[Served]:
    """A host with an agent that calls a tool whose process ends in the middle of it."""
    async with playing(tmp_path / "data") as made:
        await made.host.apply(ConfigFile(plugins=[trusted(PLAYER), trusted(TOOLBOX)]), actor="test")
        tools = {"tools": ["player.*", "toolbox.*"]}
        policy = {**POLICY, "allowed_tool_names": ["player.*", "toolbox.die"]}
        await player(made, "mortal", resource_policy=policy, config=tools)
        yield made
