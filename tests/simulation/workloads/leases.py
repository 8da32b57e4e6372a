"""Watches hosts that share a database: one that joins again has no work left of the time before."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from hostler.simulation.plugins import PluginLife
from hostler.simulation.world import SimulatedHost
from simulation.life import Life


async def attend(life: Life) -> None:
    """Note where a plugin still works on runs of an epoch that its host has left."""
    if len(life.hosts) < 2:
        return
    epochs: dict[str, tuple[int, int]] = {}
    identities: dict[tuple[str, int], str] = {}
    watches = [(host, partial(_committed, life, host, epochs, identities)) for host in life.hosts]
    for host, watch in watches:
        host.at_commit.append(watch)
    try:
        await asyncio.Event().wait()
    finally:
        for host, watch in watches:
            host.at_commit.remove(watch)


def _committed(
    life: Life,
    host: SimulatedHost,
    epochs: dict[str, tuple[int, int]],
    identities: dict[tuple[str, int], str],
) -> None:
    identity = identities.get((host.name, host.starts)) or _identity(host)
    if not identity:
        return
    identities[host.name, host.starts] = identity
    for (epoch,) in life.rows(f"SELECT epoch FROM hosts WHERE host_id = '{identity}'"):
        before = epochs.get(host.name)
        epochs[host.name] = (host.starts, epoch)
        if before is None or before == epochs[host.name] or before[0] != host.starts:
            continue
        ended = {
            data["run"]
            for _, kind, data in life.outside.notes
            if kind == "misdeed" and data["what"] == "two ends"
        }
        for number, plugin in enumerate(life.world.plugins.lives):
            if number in life.replaying:
                continue  # it makes no attempt: nothing of it reaches the database
            if plugin.process.alive and plugin.host is host.process:
                count = _at_work(plugin, ended)
                if count:
                    text = f"{host.name} joined again, and its plugin still works on {count} runs of before"
                    life.outside.note("wrong", text=text)


def _identity(host: SimulatedHost) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return (host.settings.data_dir / "host_id").read_text()
    return None


def _at_work(plugin: PluginLife, ended: set[str]) -> int:
    """Count the runs of a plugin that have not ended there, without those that its SDK gave up on, and those
    of which a plugin that lies said that they ended.

    The SDK lets nothing of such a run reach the host, although its code may go on
    (docs/decisions/a-lease-is-a-fact-of-the-database.md). After `run/park` none is waited for: a run that it
    is on its way for does not count.
    """
    coming = b"".join(plugin.to_plugin._pieces).split(b"\n")
    parked = [line for line in coming if b'"run/park"' in line]
    runs = [] if plugin._sdk is None else plugin._sdk._runs
    return sum(not any(run.encode() in line for line in parked) for run in runs if run not in ended)
