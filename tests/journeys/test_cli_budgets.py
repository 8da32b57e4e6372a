"""Budgets from the shell: a run that waits for more, who adds to it, and an operator who looks."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from hostler.domain.agents import ResourcePolicy
from hostler.domain.budget_limits import Budget
from support.command_line import CommandLine, Ran
from support.http_host import ADMIN_KEY, Served, serving

pytestmark = pytest.mark.timeout(240)


async def command(served: Served, tmp_path: Path, *arguments: str) -> Ran:
    line = CommandLine(tmp_path / "none", tmp_path)
    env = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
    return await asyncio.to_thread(lambda: line(*arguments, env=env))


async def test_a_run_waits_for_more_and_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", hold_seconds=60.0) as served:
        budget = Budget(max_calls_per_run=0, on_exceeded="ask")
        await served.agent("puppet", resource_policy=ResourcePolicy(budget=budget))
        run_id = (await served.say("recall k", wait=None, conversation_id="c"))["run"]["run_id"]
        while not (listed := await command(served, tmp_path, "pauses", "list")).out:
            pass
        assert "budget May this run use more of its budget of calls?" in listed.out
        pause_id = re.split(r"\s", listed.out.splitlines()[-1])[0]
        shown = await command(served, tmp_path, "pauses", "show", pause_id)
        assert "the budget of 0 calls of this run is used up" in shown.out
        assert '"top_up": {' in shown.out
        run = await command(served, tmp_path, "runs", "show", run_id)
        assert re.search(r"budget\s+nothing of 0 calls \(run\)", run.out)
        wrong = await command(served, tmp_path, "pauses", "approve", pause_id, "--top-up", "0.5", "-y")
        assert wrong.status == 1
        assert "0.5 is not of type" in wrong.err or "integer" in wrong.err
        approved = await command(served, tmp_path, "pauses", "approve", pause_id, "--top-up", "7", "-y")
        assert approved.status == 0, approved.err
        tailed = await command(served, tmp_path, "runs", "tail", run_id)
        assert tailed.status == 0, tailed.err
        budgets = await command(served, tmp_path, "budgets", "list", "--span", "run")
        assert f"run.0.{run_id}\trun\tpuppet\t\t1 calls\t\t7 calls" in budgets.out
        detail = await command(served, tmp_path, "budgets", "show", f"run.0.{run_id}")
        assert re.search(r"added\s+7 calls", detail.out)
        assert "admin" in detail.out
        of_run = await command(served, tmp_path, "budgets", "list", "--run", run_id, "--json")
        assert [one["id"] for one in of_run.json] == [f"run.0.{run_id}"]


async def test_an_operator_adds_without_being_asked(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        empty = await command(served, tmp_path, "budgets", "list")
        assert (empty.out, "no budgets were used yet" in empty.err) == ("", True)
        policy = ResourcePolicy(budget=Budget(max_calls_per_day=1))
        await served.agent("puppet", resource_policy=policy)
        await served.say("recall k", conversation_id="c")
        (budget,) = (await command(served, tmp_path, "budgets", "list", "--json")).json
        added = await command(
            served, tmp_path, "budgets", "top-up", budget["id"], "--calls", "4", "-m", "busy day"
        )
        assert (added.status, "the limit is now 5 calls" in added.err) == (0, True), added.err
        shown = await command(served, tmp_path, "budgets", "show", budget["id"])
        assert "busy day" in shown.out
        for wrong, told in (
            ((budget["id"],), "say what to add"),
            ((budget["id"], "--tokens", "5"), "no limit of tokens"),
            (("run.0.none", "--calls", "5"), "there is no budget"),
        ):
            refused = await command(served, tmp_path, "budgets", "top-up", *wrong)
            assert (refused.status != 0, told in refused.err) == (True, True), refused.err
