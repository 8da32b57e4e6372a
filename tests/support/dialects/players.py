"""A host with an agent that plays the script of its input (`tests/support/plugins/player`)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from hostler.host.config import ConfigFile
from support.http_host import Served, serving
from support.trust import trusted

PLAYER = Path(__file__).parents[1] / "plugins" / "player"
RUNNER = "plugin:test/player/default"
POLICY = {"allowed_tool_names": ["player.*"], "tool_approval": {"player.order": "required"}}
"""`player.price` and `player.slow` run at once, `player.order` takes approval."""


def script(*steps: list[Any]) -> str:
    """The input that has the agent take these steps."""
    return json.dumps(steps, ensure_ascii=False)


@contextlib.asynccontextmanager
async def playing(data_dir: Path, **settings: Any) -> AsyncIterator[Served]:
    """A host with the agent `player`."""
    async with serving(data_dir, agent=False, **settings) as served:
        await served.host.apply(ConfigFile(plugins=[trusted(PLAYER)]), actor="test")
        await player(served)
        yield served


async def player(served: Served, name: str = "player", **fields: Any) -> None:
    """Store an agent that plays."""
    body = {"name": name, "runner": RUNNER, "resource_policy": POLICY, **fields}
    answer = await served.client.put(f"/v1/agents/{name}", json=body)
    assert answer.status_code in (200, 201), answer.text
