"""An unexpected error in any background worker of a host is logged, counted and shown, and it goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.channels.request_refusals import RequestRefusals
from hostler.channels.schedules import Scheduler
from hostler.host.agent_monitor import AgentMonitor
from hostler.host.audit_heads import AuditHeads
from hostler.host.host import Host
from hostler.host.lease import LeaseHeartbeat
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.webhooks import WebhookSender
from hostler.host.workers import FAILING_AFTER
from hostler.pauses.service import PauseService
from hostler.runs.dispatch import Dispatcher
from hostler.runs.rerouting import Rerouter
from hostler.sandbox.port import Violation
from support.http_host import Served, serving

SECONDS = 200.0
WORKERS = {
    "dispatcher",
    "retention",
    "audit heads",
    "hooks",
    "channel requests",
    "webhooks",
    "schedules",
    "pauses",
    "agent review",
    "rerouting",
    "sandbox audit",
}
SHARED = {"recovery"}
"""Also works where hosts share a database."""
OFTEN: dict[str, Any] = {"collect_seconds": 0.05, "note_heads_seconds": 0.05}


class Fault:
    """Makes one method of each worker raise while it is `on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = False
        self.hit: set[str] = set()
        for kind, name in (
            (Dispatcher, "_look"),
            (Host, "_retention"),
            (AuditHeads, "try_note"),
            (RequestRefusals, "flush"),
            (WebhookSender, "_start_lanes"),
            (Scheduler, "_fire_due"),
            (PauseService, "sweep"),
            (AgentMonitor, "look"),
            (Rerouter, "_pause"),
            (AuditedSandboxes, "_write"),
            (LeaseHeartbeat, "_recover_lost"),
        ):
            monkeypatch.setattr(kind, name, self._failing(getattr(kind, name), f"{kind.__name__}.{name}"))

    def _failing(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        async def failing(*args: Any, **options: Any) -> Any:
            if self.on:
                self.hit.add(name)
                raise LookupError(f"injected into {name}")
            return await method(*args, **options)

        return failing


async def _ready(served: Served, *, failing: set[str]) -> dict[str, Any]:
    """Wait until /readyz names exactly these workers; its answer."""
    async with asyncio.timeout(SECONDS):
        while True:
            served.host.dispatcher.look()
            served.host.webhook_sender.wake()
            served.host.scheduler.wake()
            served.host.sandboxes.record(
                f"test {time.monotonic()}", Violation("refused", "nothing", "nothing")
            )
            answer = await served.client.get("/readyz")
            body: dict[str, Any] = answer.json()
            found = set() if answer.status_code == 200 else set(body["details"]["not_ready"])
            if found == failing:
                return body
            await asyncio.sleep(0.05)


async def test_workers_that_fail_are_logged_counted_shown_and_start_again(
    tmp_path: Path,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fault = Fault(monkeypatch)
    monkeypatch.setattr("hostler.host.agent_monitor.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("hostler.pauses.service.SWEEP_SECONDS", 0.05)
    monkeypatch.setattr("hostler.pauses.service.SHORTEST_SWEEP_SECONDS", 0.05)
    monkeypatch.setattr("hostler.host.webhooks.POLL_SECONDS", 0.05)
    monkeypatch.setattr("hostler.channels.hooks.FLUSH_SECONDS", 0.05)
    monkeypatch.setattr("hostler.channels.channel_requests.FLUSH_SECONDS", 0.05)
    monkeypatch.setattr("hostler.runs.rerouting.LOOK_SECONDS", 0.05)

    shared = database_url.startswith("postgres")
    workers = WORKERS | SHARED if shared else WORKERS

    async def story() -> None:
        async with serving(tmp_path, database=database_url if shared else None, **OFTEN) as served:
            await _ready(served, failing=set())
            fault.on = True
            body = await _ready(served, failing=workers)
            assert "background work keeps failing" in body["detail"]
            assert "injected" not in body["detail"], "open to everybody: what failed is the log's to say"
            metrics = (await served.client.get("/metrics")).text
            for worker in workers:
                (line,) = [
                    line
                    for line in metrics.splitlines()
                    if line.startswith(f'hostler_worker_failures_total{{worker="{worker}"}}')
                ]
                assert float(line.rpartition(" ")[2]) >= FAILING_AFTER
            said = await served.say("say 1", wait=None, delay=0.2)  # the dispatcher has to claim its run
            fault.on = False
            await _ready(served, failing=set())
            assert "hostler_worker_running" in (await served.client.get("/metrics")).text
            run_id = said["run"]["run_id"]
            async with asyncio.timeout(SECONDS):
                run = await served.host.runs.wait("default", run_id, SECONDS)
            assert run.status == "completed", "what was queued meanwhile runs"

    await story()
    for worker in workers:
        assert f"the worker {worker} failed" in caplog.text
    assert "LookupError: injected into Dispatcher._look" in caplog.text
