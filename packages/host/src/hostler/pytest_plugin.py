"""The pytest plugin: fixture `hostler_replay`, which replays exported runs, and `hostler_faults`.

    def test_behaves_as_recorded(hostler_replay):
        hostler_replay("recordings/greeting.json", runner="./my-agent")

    def test_survives_crashes(hostler_faults):
        hostler_faults("./my-agent", "Book a room")

See hostler.testing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hostler.testing import FaultReport, Replays


@pytest.fixture(scope="session")
def hostler_replay() -> Iterator[Replays]:
    """Replay exported runs. The plugin processes live as long as the session."""
    from hostler.testing import Replays  # noqa: PLC0415 - every test run loads this plugin, few use it

    replays = Replays()
    try:
        yield replays
    finally:
        replays.close()


@pytest.fixture(scope="session")
def hostler_faults() -> Callable[..., list[FaultReport]]:
    """Put a runner through crashes at every host call. See hostler.testing.check_faults."""
    from hostler.testing import check_faults  # noqa: PLC0415 - as above

    return check_faults
