"""Memory of the host process: idle, for each run that waits in its plugin, and for each in a queue."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import msgspec
from bench.served import Client, Served, client, message, serving
from bench.table import Row

from hostler.host.config import Settings

MIB = 1024 * 1024
KIB = 1024
SETTLE_SECONDS = 60.0
_numbers = itertools.count()


async def post_idle(connection: Client, count: int) -> list[str]:
    """Open runs that wait until they are cancelled; their ids."""
    found = []
    for _ in range(count):
        status, body = await connection.post("/v1/events", message(f"idle {next(_numbers)}", "idle"))
        if status != 202:
            raise RuntimeError(f"an event was not taken: {status} {body!r}")
        found.append(msgspec.json.decode(body)["run"]["run_id"])
    return found


async def cancel(connection: Client, run_ids: list[str]) -> None:
    """End runs, and wait until they have ended."""
    for run_id in run_ids:
        status, body = await connection.post(f"/v1/runs/{run_id}/cancel", {})
        if status not in (200, 202):
            raise RuntimeError(f"a run was not cancelled: {status} {body!r}")


async def slope(host: Served, connection: Client, low: int, high: int) -> float:
    """Bytes of a run, from the memory at `low` and at `high` runs."""
    run_ids = await post_idle(connection, low)
    await settled(connection)
    before = host.memory_bytes()
    run_ids += await post_idle(connection, high - low)
    await settled(connection)
    grown = host.memory_bytes() - before
    await cancel(connection, run_ids)
    return grown / (high - low)


async def settled(connection: Client) -> None:
    """Wait until what was accepted has been handed to the plugin: a run behind all of them has ended."""
    async with asyncio.timeout(SETTLE_SECONDS):
        await connection.post("/v1/events?wait=30", message(f"after {next(_numbers)}", "talk"))


@contextlib.asynccontextmanager
async def fresh() -> AsyncIterator[tuple[Served, Client]]:
    """A host of its own, warmed up."""
    with serving() as host:
        async with client(host.port) as connection:
            for _ in range(20):
                await settled(connection)
            yield host, connection


async def measure(quick: bool) -> list[Row]:
    """Active runs up to what one process executes at once, and queued ones beyond it."""
    most = Settings().max_active_runs
    async with fresh() as (host, connection):
        idle = host.memory_bytes()
        low, high = (4, 24) if quick else (most // 4, most - 8)
        active = await slope(host, connection, low, high)
    found = [
        Row("the host process, idle", idle / MIB, "MiB"),
        Row(f"an active run that waits in its plugin ({low} to {high} of them)", active / KIB, "KiB"),
    ]
    if quick:
        return found
    async with fresh() as (host, connection):
        run_ids = await post_idle(connection, most)
        before = host.memory_bytes()
        run_ids += await post_idle(connection, 1000)
        queued = (host.memory_bytes() - before) / 1000
        await cancel(connection, run_ids)
    return [*found, Row("a run that waits in the queue (1,000 of them)", queued / KIB, "KiB")]


def rows(quick: bool) -> list[Row]:
    """Measure."""
    return asyncio.run(measure(quick))
