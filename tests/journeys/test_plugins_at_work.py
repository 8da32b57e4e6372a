"""Plugins are changed and removed under runs that are at work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.host.config import ConfigFile, PluginEntry, PluginLimitsEntry
from hostler.host.config_entries import entry_kind
from hostler_protocol.errors import NotFoundError
from support.stepping import STEPPER, Latch, Stage, stage, within

PLUGIN = "test/stepper"


async def change(host: Stage, memory_mib: int) -> None:
    """Give the plugin another entry; it is trusted, so that its limits change nothing else."""
    entry = PluginEntry(path=str(STEPPER), level="trusted", limits=PluginLimitsEntry(memory_mib=memory_mib))
    await host.host.apply(ConfigFile(plugins=[entry]), actor="t")


async def test_runs_at_work_finish_on_the_old_process_and_new_ones_start_on_the_new(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host, Latch(tmp_path) as latch:
        connection = host.host.supervisor.connection
        before = await host.start([["gate", latch.path], ["say", "done"]])
        await latch.reached()
        old = await connection(PLUGIN)
        await change(host, 512)
        new = await connection(PLUGIN)
        assert (new is old, set(old.active_runs), set(new.active_runs)) == (False, {before}, set())
        assert (await host.run([["say", "new"]])).said == ["new"]
        latch.open()
        assert (await host.ended(before)).said == ["done"]
        await change(host, 512)  # as it is: the same process goes on
        assert await connection(PLUGIN) is new


async def test_a_removed_plugin_finishes_its_runs_and_its_agents_are_named(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host, Latch(tmp_path) as latch:
        before = await host.start([["gate", latch.path], ["say", "done"]])
        await latch.reached()
        diff = await host.host.remove_entry(entry_kind("plugins"), PLUGIN, actor="t")
        (problem,) = diff.problems
        assert (problem.kind, problem.name) == ("agent", "main")
        assert "`hostler plugins add FOLDER`" in problem.problem
        ended = await host.run([["say", "x"]])
        assert (ended.record.status, ended.record.status_code) == ("failed", "runner.config_invalid")
        assert "there is no plugin test/stepper" in ended.last["error"]
        latch.open()
        assert (await host.ended(before)).said == ["done"]
        with pytest.raises(NotFoundError, match="has no plugin"):
            await host.host.remove_entry(entry_kind("plugins"), PLUGIN, actor="t")
        await change(host, 512)
        assert (await host.run([["say", "again"]])).said == ["again"]
        assert await host.host.problems() == []


async def test_no_run_is_lost_while_a_plugin_is_changed_again_and_again(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        started: list[str] = []

        async def work() -> None:
            for number in range(30):
                started.append(await host.start([["say", str(number)]]))
                await asyncio.sleep(0)

        working = asyncio.create_task(work())
        await asyncio.gather(*(change(host, 256 + number) for number in range(4)))
        await working
        said = [(await host.ended(run_id)).said for run_id in started]
        assert said == [[str(number)] for number in range(30)]


async def test_a_change_that_does_not_start_holds_and_says_why(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    manifest = (STEPPER / "hostler.yaml").read_text()
    (other / "hostler.yaml").write_text(manifest)  # and no code
    async with within(), stage(tmp_path / "data") as host:
        entry = PluginEntry(path=str(other), level="trusted")
        diff = await host.host.apply(ConfigFile(plugins=[entry]), actor="t")
        (change_made,) = diff.effective
        assert change_made.before == {"path": str(STEPPER), "level": "trusted"}
        (problem,) = diff.problems
        assert (problem.kind, problem.name) == ("plugin", PLUGIN)
        assert (await host.run([["say", "x"]])).record.status == "failed"
        await change(host, 512)
        assert (await host.run([["say", "back"]])).said == ["back"]
