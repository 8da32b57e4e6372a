"""The pytest plugin: fixture `hostler_replay`, which replays exported runs.

    def test_behaves_as_recorded(hostler_replay):
        hostler_replay("recordings/greeting.json", runner="./my-agent")

See hostler.testing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hostler.testing import Replays


@pytest.fixture(scope="session")
def hostler_replay() -> Iterator[Replays]:
    """Replay exported runs. The plugin processes live as long as the session."""
    from hostler.testing import Replays  # noqa: PLC0415 - every test run loads this plugin, few use it

    replays = Replays()
    try:
        yield replays
    finally:
        replays.close()
