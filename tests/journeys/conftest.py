"""Fixtures of the journeys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.chromium import Page, browsing
from support.command_line import CommandLine
from support.console_words import speaking


@pytest.fixture
def quick_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts of this process repeat lost attempts after a moment; their back-off has tests of its own."""
    monkeypatch.setattr("hostler.storage.stores.pause_claims.FIRST_BACKOFF_SECONDS", 0.02)
    monkeypatch.setattr("hostler.domain.recovery.MAX_DELAY_SECONDS", 0)
    monkeypatch.setattr("hostler.domain.breaker.BACK_OFF_SECONDS", (0.0, 0.02, 0.02, 0.02, 0.02))


@pytest.fixture
def hostler(tmp_path: Path) -> CommandLine:
    """The command line over a data directory of its own, in an empty folder."""
    work = tmp_path / "work"
    work.mkdir()
    return CommandLine(tmp_path / "data", work)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A page of the browser, in a context of this test."""
    async with browsing() as made:
        yield made


@pytest.fixture
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """The language of the pages that a test opens; see `support.console_words.in_languages`."""
    with speaking(request.param):
        yield request.param
