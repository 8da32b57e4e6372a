"""The channels that are open on one connection: none stays open in the plugin that the host has given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from hostler.plugins.channels import ChannelHandler, PluginChannels
from hostler.plugins.limits import ConnectionLimits
from hostler.plugins.pending_requests import PendingRequests
from hostler_protocol.channels import ChannelOpenParams
from hostler_protocol.errors import HostlerError, InvalidArgumentError, PluginCrashedError


class Peer:
    """A plugin that leaves `channel/open` unanswered, or refuses it."""

    def __init__(self, refusal: HostlerError | None = None) -> None:
        self.said: list[tuple[str, str]] = []
        self.asked = asyncio.Event()
        self._refusal = refusal

    async def ask(self, method: str, params: Any) -> None:
        self.said.append((method, params.channel_id))
        self.asked.set()
        if self._refusal is not None:
            raise self._refusal
        await asyncio.Event().wait()

    def ask_in_passing(self, method: str, params: Any, then: Callable[[], None]) -> None:
        self.said.append((method, params.channel_id))

    def channels(self, answer_seconds: float = 60.0) -> PluginChannels:
        requests, limits = cast(PendingRequests, self), ConnectionLimits(answer_seconds=answer_seconds)
        return PluginChannels(requests, lambda: True, lambda _id, _error: None, limits)


OPEN = ChannelOpenParams(channel_id="c", channel="x")
HANDLER = cast(ChannelHandler, None)
BOTH = [("channel/open", "c"), ("channel/close", "c")]


async def test_an_opening_that_is_cancelled_is_closed_in_the_plugin() -> None:
    peer = Peer()
    channels = peer.channels()
    opening = asyncio.ensure_future(channels.open(OPEN, HANDLER))
    async with asyncio.timeout(60):
        await peer.asked.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    assert peer.said == BOTH
    assert channels.open_ids == frozenset()


async def test_an_opening_without_an_answer_is_closed_in_the_plugin() -> None:
    peer = Peer()
    with pytest.raises(PluginCrashedError, match="did not answer"):
        await peer.channels(answer_seconds=0.01).open(OPEN, HANDLER)
    assert peer.said == BOTH


async def test_an_opening_that_is_refused_needs_no_closing() -> None:
    peer = Peer(InvalidArgumentError("no"))
    with pytest.raises(InvalidArgumentError):
        await peer.channels().open(OPEN, HANDLER)
    assert peer.said == BOTH[:1]
