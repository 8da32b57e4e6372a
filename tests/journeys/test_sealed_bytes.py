"""Encryption at rest: no content is in any byte that a host wrote, with the index, the log and the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.canaries import Canaries, configure, leaks, leave
from support.stepping import stage, within
from support.turned_on import turn_on

pytestmark = pytest.mark.gate("sealed-content")


async def test_no_content_is_in_any_byte(tmp_path: Path) -> None:
    data, words = tmp_path / "data", Canaries()
    async with within(100), stage(data, hold_seconds=0.05) as host:
        await turn_on(host, tmp_path)
        await configure(host, tmp_path)
        await leave(host, words, "c")
        assert leaks(data, words) == {}
    assert leaks(data, words) == {}
