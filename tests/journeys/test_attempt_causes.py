"""Whoever watches a run is told why it has another attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.shop import ASK_ALL, PLACE, SEND, decide, decision, parked, shop, waiting
from support.stepping import Ended, stage, within

EXPLICIT = {
    "pending": [
        {
            "tool_name": "shop.send",
            "arguments": {"to": "ada", "text": "hi"},
            "kind": "approval",
            "call_id": "c",
        }
    ],
    "state": 1,
}


def causes(ended: Ended) -> list[str]:
    """What the results say, which is what the journal says."""
    queued = [e["data"]["cause"] for e in ended.entries("lifecycle", "queued") if e["data"]["from"]]
    started = [r["data"]["cause"] for r in ended.results if r["type"] == "attempt.started"]
    assert started == queued
    return started


@pytest.mark.parametrize("form", ["implicit", "explicit"])
async def test_the_attempt_after_a_decision_says_so(tmp_path: Path, form: str) -> None:
    async with shop(tmp_path) as host:
        runner = "keeper" if form == "explicit" else "resumable"
        await host.agent(runner=runner, resource_policy=ASK_ALL)
        first: list[Any] = (
            [["result", "run.paused", EXPLICIT], ["silent"]] if form == "explicit" else [SEND, ["tell"]]
        )
        run_id = await host.start({"1": first, "else": [SEND, ["tell"]]}, **PLACE)
        pause = await waiting(host, run_id)
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert causes(ended) == ["the decisions are in"]


@pytest.mark.parametrize("runner", ["default", "resumable"])
async def test_the_attempt_after_a_crash_says_what_was_lost(tmp_path: Path, runner: str) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(runner=runner, recovery={"on_crash": "restart"})
        ended = await host.run({"1": [["deltas", 1], ["crash"]], "else": [["say", "done"]]})
        assert ended.record.status == "completed", ended.last
        (cause,) = causes(ended)
        assert cause == "the plugin process ended during the run; it restarts"
