"""The monitor of a connection: messages that break the rules, pings, and a peer that is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from hostler.plugins.connection_monitor import ConnectionMonitor
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS
from hostler.plugins.read_pause import ReadPause
from hostler.plugins.send_queue import SendQueue
from hostler_protocol.errors import PluginCrashedError, PluginError, PluginProtocolError

QUICK = replace(
    DEFAULT_CONNECTION_LIMITS,
    bad_messages_per_minute=2,
    ping_interval_seconds=0.001,
    ping_silence_seconds=0.03,
)


def monitor_of(
    ping: Callable[[Callable[[], None]], bool],
    failures: list[PluginError],
    ended: asyncio.Event | None = None,
) -> ConnectionMonitor:
    def fail(error: PluginError) -> None:
        failures.append(error)
        if ended is not None:
            ended.set()

    return ConnectionMonitor(QUICK, SendQueue(QUICK), ReadPause(QUICK.held_result_bytes), ping, fail)


def test_a_message_too_many_that_breaks_the_rules_is_the_end() -> None:
    failures: list[PluginError] = []
    monitor = monitor_of(lambda _: True, failures)
    assert [monitor.bad_message(f"reason {number}") for number in range(3)] == [True, True, False]
    (error,) = failures
    assert isinstance(error, PluginProtocolError)
    assert "3 messages within a minute" in error.message
    assert error.message.endswith("reason 2")


async def test_a_peer_that_does_not_answer_a_ping_is_the_end() -> None:
    failures: list[PluginError] = []
    ended = asyncio.Event()
    pings = 0

    def ping(_: Callable[[], None]) -> bool:
        nonlocal pings
        pings += 1
        return True

    monitor = monitor_of(ping, failures, ended)
    monitor.start()
    async with asyncio.timeout(60):
        await ended.wait()
    assert pings == 1
    assert isinstance(failures[0], PluginCrashedError)
    assert "has not answered a ping" in failures[0].message


async def test_a_ping_that_is_answered_is_followed_by_the_next() -> None:
    failures: list[PluginError] = []
    enough = asyncio.Event()
    pings = 0

    def ping(answered: Callable[[], None]) -> bool:
        nonlocal pings
        pings += 1
        asyncio.get_running_loop().call_soon(answered)
        if pings == 5:
            enough.set()
        return True

    monitor = monitor_of(ping, failures)
    monitor.start()
    async with asyncio.timeout(60):
        await enough.wait()
    monitor.stop()
    assert failures == []
