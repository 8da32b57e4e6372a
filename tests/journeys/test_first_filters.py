"""The first events of a host whose agents have filters."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.http_host import serving
from support.slow_engine import load_slowly
from support.stepping import within


async def test_the_first_filtered_events_after_an_installation_reach_their_agent(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_slowly(tmp_path / "modules", monkeypatch)
    async with within(), serving(tmp_path / "data", agent=False, database=database_url) as served:
        await served.agent("picky", filters=["event.input.text.startsWith('hello')"])
        for number in range(3):
            assert (await served.say(f"hello {number}"))["status"] == "completed"
