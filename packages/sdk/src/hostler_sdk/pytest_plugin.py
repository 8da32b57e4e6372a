"""The pytest plugin: fixture `host`, a scripted host that runners are driven against.

    def test_echo(host):
        assert host.drive_sync(Echo, "hi").text == "hi!"

`host.world` holds its data and scripts; in an async test use `await host.drive(...)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hostler_sdk.testing import ScriptedHost


@pytest.fixture
def host() -> ScriptedHost:
    """Return a new scripted host for this test."""
    from hostler_sdk.testing import ScriptedHost  # noqa: PLC0415 - every test run loads this plugin, few use it

    return ScriptedHost()
