"""Whoever sends an event gives up waiting, at any moment: what is stored still takes its course."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hostler.domain.events import Caller
from hostler.host.config import Settings
from hostler.host.host import Host
from hostler.storage.port import Tx
from hostler.storage.stores import runs
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.runs import TERMINAL_STATUSES
from support.server_process import PLUGINS, config_file

SECONDS = 110
MOMENTS = 60
LOOKS = 900
TURNS_APART = 6
"""Of the loop: together they reach from before the transaction to after it."""


async def test_an_accepted_event_is_carried_out_although_nobody_waits_for_the_answer(tmp_path: Path) -> None:
    agents = [{"name": "other", "runner": "plugin:test/puppet/default"}]
    config = config_file(tmp_path / "config.yaml", plugins=[PLUGINS / "puppet"], agents=agents)
    async with asyncio.timeout(SECONDS), Host.open(Settings(tmp_path / "data", config=config)) as host:
        given_up = 0
        for moment in range(MOMENTS):
            envelope = EventEnvelope(event_type="message.received", agent="other", input=Input(text="say 1"))
            caller = Caller("default", "tests", "key")
            sending = asyncio.create_task(host.orchestrator.accept(envelope, caller))
            for _ in range(moment * TURNS_APART):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
            given_up += sending.cancelled()
        assert given_up > 0
        for _ in range(LOOKS):
            stored = await host.db.read(_all_runs)
            if stored and all(run.status in TERMINAL_STATUSES for run in stored):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"nobody carries them out: {[run.status for run in stored]}")


def _all_runs(tx: Tx) -> list[runs.Run]:
    return runs.page(tx, "default", limit=100)
