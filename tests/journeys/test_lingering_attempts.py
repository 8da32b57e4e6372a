"""A plugin process that does not let go of an attempt: the run goes on in another one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest
from support.stepping import WORKSPACE, Stage, stage, within

ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))
ASK = [
    "call",
    "interaction.request",
    {"kind": "form", "title": "Sure?", "fields": [{"name": "sure", "type": "boolean"}]},
]


async def _answered(host: Stage, run_id: str) -> None:
    """Wait until the run is parked, then answer it."""
    while (await host.host.runs.record(WORKSPACE, run_id)).status != "paused":
        await asyncio.sleep(0.01)
    (pause,) = (await host.host.pauses.page(ADMIN, run_id=run_id)).items
    (call,) = pause.calls
    action = Action(call_id=call.call_id, type="answer", values={"sure": True})
    await host.host.pauses.act(ADMIN, pause.id, ActRequest(revision=pause.revision, actions=[action]))


async def test_a_run_that_begins_again_does_not_meet_its_earlier_attempt(tmp_path: Path) -> None:
    """The second attempt does something else than the first, so that the policy has the run begin again. The
    runner ignores its cancellation, and would speak for the third attempt.
    """
    async with within(100), stage(tmp_path, hold_seconds=0.05) as host:
        await host.agent(runner="resumable", recovery={"on_crash": "restart", "max_attempts": 5})
        steps: dict[str, Any] = {
            "1": [["say", "a"], ASK],
            "2": [["say", "b"], ["hold"]],
            "else": [["pid"], ["say", "done"]],
        }
        run_id = await host.start(steps)
        (before,) = [one.pid for one in host.host.supervisor.status() if one.pid is not None]
        await _answered(host, run_id)
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert ended.said[-1] == "done"
        assert ended.said[-2] != str(before), "the old process may still speak in the name of the run"
        causes = [r["data"]["cause"] for r in ended.results if r["type"] == "attempt.started"]
        assert any("replay.diverged" in cause for cause in causes), causes
        queued = [e["data"] for e in ended.entries("lifecycle") if e["data"]["to"] == "queued"]
        assert any("is replaced" in entry["cause"] for entry in queued), queued
