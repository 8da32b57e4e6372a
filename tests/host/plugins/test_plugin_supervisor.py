"""Plugins of a host: started on demand, restarted, given up with a reason, replaced and ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hostler.host.bundled import bundled
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import RunningPlugin
from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS, DEFAULT_START_LIMITS, StartLimits
from hostler.plugins.source import Folder, SingleFile
from hostler.plugins.startup import start_plugin
from hostler.plugins.supervisor import Supervisor
from hostler_protocol.errors import (
    ConflictError,
    NotFoundError,
    PluginCrashedError,
    PluginStartError,
    UnavailableError,
)
from support.plugin_runs import WIRE_PLUGIN, begin, run, until_none_living

pytestmark = pytest.mark.gate("plugins-in-trouble")


class Clock:
    """A clock that only moves when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Notices(list[tuple[str, str, str]]):
    """The supervisor's reports, with a way to wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()

    def __call__(self, kind: str, key: str, text: str) -> None:
        self.append((kind, key, text))
        self.arrived.set()

    async def wait_for(self, kind: str, count: int = 1) -> list[str]:
        while len(found := [text for k, _, text in self if k == kind]) < count:
            self.arrived.clear()
            await self.arrived.wait()
        return found


def write_wire(folder: Path, name: str = "wire", start: str = "") -> Folder:
    """A plugin folder around the wire plugin, which does at its start what the file `start` says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "start").write_text(start)
    (folder / "main.py").write_text(
        f"import os, runpy\nos.environ['HOSTLER_PLUGIN_TEST'] = open('start').read()\n"
        f"runpy.run_path({str(WIRE_PLUGIN)!r}, run_name='__main__')\n"
    )
    manifest = {"plugin": {"author": "test", "name": name}, "command": ["python", "main.py"]}
    (folder / "hostler.yaml").write_text(json.dumps(manifest))
    return Folder(folder, level="trusted")


@contextlib.asynccontextmanager
async def supervisor(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Supervisor, Notices]]:
    notices = Notices()
    host = Supervisor(tmp_path / "data", notice=notices, **options)
    try:
        async with asyncio.timeout(110):
            yield host, notices
    finally:
        register = tmp_path / "data" / "plugins" / "processes"
        markers = [path.stem for path in register.glob("*.json")]
        await host.close(2.0)
        for marker in markers:
            await until_none_living(marker)
        assert list(register.glob("*.json")) == []


async def test_a_plugin_starts_on_demand_once_however_many_ask(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as (host, notices):
        key = host.add(write_wire(tmp_path / "wire"))
        assert host.status()[0].state == "stopped"
        connections = await asyncio.gather(*(host.connection(key) for _ in range(20)))
        assert len(set(map(id, connections))) == 1
        status = host.status()[0]
        assert (status.state, status.runners, status.version) == ("ready", ("default",), "1.2")
        assert status.containment
        assert (await host.manifest("plugin:test/wire/default")).label == {"en": "Wire"}
        with pytest.raises(NotFoundError, match="its runners are: default"):
            await host.manifest("plugin:test/wire/other")
        with pytest.raises(NotFoundError, match="known are: test/wire"):
            await host.connection("test/nothing")
        with pytest.raises(NotFoundError, match="is not a runner id"):
            await host.manifest("echo")
        assert [kind for kind, _, _ in notices] == ["started"]


async def test_a_killed_plugin_ends_its_runs_alone_and_the_next_run_works(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as (host, notices):
        first = host.add(write_wire(tmp_path / "a", "a"))
        second = host.add(write_wire(tmp_path / "b", "b"))
        victim, other = await host.connection(first), await host.connection(second)
        lost = [await begin(victim, "wait") for _ in range(5)]
        bystander = await begin(other, "wait")
        pid = host.status()[0].pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        for recorder in lost:
            error = await recorder.over
            assert isinstance(error, PluginCrashedError)
            assert error.status_code == "runner.crashed"
        assert (await notices.wait_for("crashed"))[0].startswith("the process was killed by SIGKILL")
        assert not bystander.over.done()
        again = await host.connection(first)
        assert again is not victim
        assert (await run(again, "echo back")).texts == ["back"]
        assert (await run(other, "echo still here")).texts == ["still here"]
        assert host.status()[0].restarts == 1


async def test_a_crash_at_the_start_says_why_and_opens_the_breaker_in_the_end(tmp_path: Path) -> None:
    clock = Clock()
    async with supervisor(tmp_path, clock=clock) as (host, _):
        key = host.add(write_wire(tmp_path / "wire", start="crash"))
        for attempt in range(5):
            with pytest.raises(PluginStartError) as caught:
                await host.connection(key)
            assert "No module named 'nowhere'" in caught.value.message
            assert host.status()[0].state == ("waiting" if attempt < 4 else "failed")
            clock.now += 3
        status = host.status()[0]
        assert status.reason
        assert "No module named 'nowhere'" in status.reason
        assert status.log_path
        assert "ModuleNotFoundError" in status.log_path.read_text()
        starts = status.log_path.read_text().count("Traceback")
        with pytest.raises(PluginStartError, match=r"it failed before.*No module named 'nowhere'"):
            await host.connection(key)  # refused without a start
        assert status.log_path.read_text().count("Traceback") == starts == 5
        clock.now += 60
        (tmp_path / "wire" / "start").write_text("")  # mended
        assert (await run(await host.connection(key), "echo well")).texts == ["well"]


async def test_a_plugin_that_says_why_it_cannot_load_opens_the_breaker_at_once_until_it_changes(
    tmp_path: Path,
) -> None:
    async with supervisor(tmp_path) as (host, _):
        key = host.add(write_wire(tmp_path / "wire", start="explain"))
        with pytest.raises(PluginStartError) as caught:
            await host.connection(key)
        assert caught.value.message == (
            "plugin test/wire cannot be started: echo.py has no class Ecko; did you mean Echo?"
        )
        assert host.status()[0].state == "failed"
        (tmp_path / "wire" / "start").write_text("now mended")
        assert (await run(await host.connection(key), "echo well")).texts == ["well"]
        assert host.status()[0].reason is None


async def test_plugins_kept_running_are_restarted_with_back_off_until_the_breaker_opens(
    tmp_path: Path,
) -> None:
    async with supervisor(tmp_path) as (host, notices):
        good = host.add(write_wire(tmp_path / "good", "good"))
        bad = host.add(write_wire(tmp_path / "bad", "bad", "crash"))
        ends = await host.start_all()
        assert ends[good] is None
        assert isinstance(ends[bad], PluginStartError)
        await notices.wait_for("start_failed", 5)
        status = {status.key: status for status in host.status()}
        assert status[bad].state == "failed"
        assert status[good].state == "ready"
        pid = status[good].pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        await notices.wait_for("started", 2)
        assert host.status()[1].restarts == 1


async def test_a_start_that_fails_after_long_is_not_tried_again_soon(tmp_path: Path) -> None:
    """Whatever it did meanwhile: it may have used a processor."""
    clock = Clock()
    tried = 0

    async def start(*_: Any, **__: Any) -> Any:
        nonlocal tried
        tried += 1
        clock.now += 11 if tried == 1 else 1
        raise PluginStartError("it ended")

    async with supervisor(tmp_path, clock=clock, start=start) as (host, _):
        key = host.add(write_wire(tmp_path / "wire"))
        for _ in range(3):
            with pytest.raises(PluginStartError, match="it ended"):
                await host.connection(key)
        assert tried == 1
        assert host.status()[0].state == "failed"
        clock.now += 60
        with pytest.raises(PluginStartError, match="it ended"):
            await host.connection(key)
        assert tried == 2


async def test_few_environments_are_built_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    building = most = 0
    go = asyncio.Event()

    async def build(_: Environments, target: Path, *__: Any) -> None:
        nonlocal building, most
        building += 1
        most = max(most, building)
        if building == 2:
            go.set()
        await go.wait()
        await asyncio.sleep(0)
        building -= 1
        (target / "bin").mkdir(parents=True)

    monkeypatch.setattr(Environments, "_build", build)
    environments = Environments(tmp_path, StartLimits())
    async with asyncio.timeout(110):
        wanted = [environments.python_for([f"package{n}"], base=tmp_path) for n in range(7)]
        await asyncio.gather(*wanted)
    assert most == 2


async def test_a_plugin_that_falls_over_again_and_again_is_started_after_growing_waits(
    tmp_path: Path,
) -> None:
    clock = Clock()
    limits = replace(DEFAULT_START_LIMITS, stable_seconds=10.0, forget_seconds=300.0)
    async with supervisor(tmp_path, clock=clock, start_limits=limits) as (host, notices):
        key = host.add(write_wire(tmp_path / "wire"))
        waits = []
        for number, lived in enumerate((11, 11, 11, 11, 11, 11, 299, 301, 11)):
            connection = await host.connection(key)
            clock.now += lived
            pid = host.status()[0].pid
            assert pid
            os.kill(pid, signal.SIGKILL)
            await connection.closed
            await notices.wait_for("crashed", number + 1)
            status = host.status()[0]
            assert (status.state, status.restarts) == ("waiting", number + 1)
            assert status.reason
            waits.append(status.retry_in_seconds)
            clock.now += 61
        assert waits == pytest.approx([0.2, 0.5, 1, 2, 4, 8, 16, 0.2, 0.5])


async def test_a_start_waits_no_longer_than_it_is_told_to(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as (host, _):
        good = host.add(write_wire(tmp_path / "good", "good"))
        slow = host.add(write_wire(tmp_path / "slow", "slow"))
        (tmp_path / "slow" / "main.py").write_text("import time\ntime.sleep(3600)\n")
        ends = await host.start_all(3.0)
        assert ends[good] is None
        assert "still starting after 3 s" in str(ends[slow])
        assert {status.key: status.state for status in host.status()} == {good: "ready", slow: "starting"}


async def test_what_was_resumable_is_known_before_its_plugin_is_up_again(tmp_path: Path) -> None:
    runner = "plugin:hostler/guide/default"
    async with supervisor(tmp_path) as (host, _):
        key = host.add(Folder(bundled("examples", "guide"), level="trusted"))
        assert not host.catalog.is_resumable(runner)
        manifest = (await host.connection(key)).runners["default"]
        learnt = msgspec.structs.replace(manifest.capabilities, resumable=True)
        host.catalog.learn(key, {"default": msgspec.structs.replace(manifest, capabilities=learnt)})
        assert host.catalog.is_resumable(runner)
    async with supervisor(tmp_path) as (again, _):
        assert again.catalog.is_resumable(runner)
        assert not again.catalog.is_resumable("plugin:hostler/guide/other")
        again.catalog.learn("hostler/guide", {})
        assert not again.catalog.is_resumable(runner)
    (tmp_path / "data" / "plugins" / "runners.json").write_bytes(b"\xff{")
    async with supervisor(tmp_path) as (third, _):
        assert not third.catalog.is_resumable(runner)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: SingleFile(folder / "gone.py", "Echo"), "there is no file"),
        (lambda folder: _with_command(folder, ["/no/such/program"]), "No such file or directory"),
        (lambda folder: _with_command(folder, ["python", "-c", "pass"]), "exited with status 0"),
    ],
)
async def test_what_cannot_be_executed_says_so(
    tmp_path: Path, make: Callable[[Path], Folder | SingleFile], says: str
) -> None:
    async with supervisor(tmp_path) as (host, _):
        key = host.add(make(tmp_path))
        with pytest.raises(PluginStartError) as caught:
            await host.connection(key)
        assert says in caught.value.message


def _with_command(folder: Path, command: list[str]) -> Folder:
    manifest = {"plugin": {"author": "test", "name": "odd"}, "command": command}
    (folder / "hostler.yaml").write_text(json.dumps(manifest))
    return Folder(folder, level="trusted")


async def test_replacing_a_plugin_lets_its_runs_finish_and_keeps_the_old_one_where_the_new_fails(
    tmp_path: Path,
) -> None:
    limits = replace(DEFAULT_START_LIMITS, exit_seconds=1.0)
    async with supervisor(tmp_path, start_limits=limits) as (host, _):
        source = write_wire(tmp_path / "wire", start="stubborn")
        key = host.add(source)
        old = await host.connection(key)
        running = await begin(old, "wait")
        (tmp_path / "wire" / "start").write_text("explain")
        with pytest.raises(PluginStartError, match="Ecko"):
            await host.restart(key)
        assert await host.connection(key) is old
        (tmp_path / "wire" / "start").write_text("")
        await host.restart(key)
        new = await host.connection(key)
        assert new is not old
        assert (await run(new, "echo new")).texts == ["new"]
        with pytest.raises(UnavailableError):
            await begin(old, "echo late")
        old.cancel_run(running.run_id)  # the old process still serves its run
        assert await running.over == "end"
        await host.close(0.5)  # it is stubborn: it does not exit by itself
        assert old.closed.done()


async def test_one_key_has_one_source(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as (host, _):
        source = write_wire(tmp_path / "one")
        key = host.add(source)
        assert host.add(source) == key
        assert host.add(replace(source, level="sandboxed")) == key  # the same folder: as it is served
        with pytest.raises(ConflictError) as caught:
            host.add(write_wire(tmp_path / "two"))
        assert caught.value.message == (
            f"plugin test/wire is served from {tmp_path / 'one'}, and {tmp_path / 'two'} says that it is "
            "test/wire too: give one of them another name in its hostler.yaml, or remove the first with "
            "`hostler plugins remove test/wire`"
        )
        await host.connection(key)
        await host.remove(key)
        assert key not in host
        host.add(write_wire(tmp_path / "two"))


async def test_after_close_nothing_starts_any_more(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as (host, _):
        key = host.add(write_wire(tmp_path / "wire"))
        await host.connection(key)
        await host.close(1.0)
        with pytest.raises(UnavailableError):
            await host.connection(key)


async def test_a_process_that_does_not_leave_a_run_is_replaced(tmp_path: Path) -> None:
    limits = replace(DEFAULT_START_LIMITS, drain_seconds=1.0, exit_seconds=1.0)
    async with supervisor(tmp_path, start_limits=limits) as (host, _):
        key = host.add(write_wire(tmp_path / "wire", start="stubborn"))
        old = await host.connection(key)
        other = await begin(old, "wait")
        host.replace(old, "it does not leave a run")
        new = await host.connection(key)
        assert new is not old
        host.replace(old, "once is enough")
        assert await host.connection(key) is new
        old.cancel_run(other.run_id)  # the old process still serves its other runs
        assert await other.over == "end"
        old.end_run(other.run_id)
        await old.closed
        assert host.status()[0].restarts == 0, "it did not crash"


@pytest.mark.parametrize("start", ["", "ignores"])
async def test_a_process_that_works_on_runs_that_were_ended_is_ended(tmp_path: Path, start: str) -> None:
    limits = replace(DEFAULT_CONNECTION_LIMITS, leave_seconds=0.5 if start else 60.0)
    async with supervisor(tmp_path, connection_limits=limits) as (host, _):
        key = host.add(write_wire(tmp_path / "wire", start=start))
        old = await host.connection(key)
        running = await begin(old, "wait")
        old.cancel_run(running.run_id)
        old.end_run(running.run_id)
        await host.wait_free([running.run_id, "of another plugin"])
        assert old.closed.done() == bool(start)
        new = await host.connection(key)
        assert (new is old) == (not start)
        assert (await run(new, "echo new")).texts == ["new"]


class Gate:
    """Starts of processes that wait while `open` is not set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.waits = asyncio.Event()

    async def start(self, *parts: Any, **more: Any) -> RunningPlugin:
        self.waits.set()
        await self.open.wait()
        return await start_plugin(*parts, **more)

    def close(self) -> None:
        self.open.clear()
        self.waits.clear()


async def _replaced_by_another_source(host: Supervisor, _: str, folder: Path) -> None:
    host.put("test/wire", write_wire(folder / "other"))


async def _restarting(host: Supervisor, key: str, _: Path) -> None:
    restart = asyncio.create_task(host.restart(key))
    restart.add_done_callback(lambda task: task.cancelled() or task.exception())


@pytest.mark.parametrize("change", [_replaced_by_another_source, _restarting])
async def test_a_process_that_is_being_replaced_is_awaited_like_the_others(
    tmp_path: Path, change: Callable[[Supervisor, str, Path], Any]
) -> None:
    limits = replace(DEFAULT_CONNECTION_LIMITS, leave_seconds=0.5)
    gate = Gate()
    async with supervisor(tmp_path, connection_limits=limits, start=gate.start) as (host, _):
        key = host.add(write_wire(tmp_path / "wire", start="ignores"))
        old = await host.connection(key)
        running = await begin(old, "wait")
        gate.close()
        await change(host, key, tmp_path)
        if change is _restarting:
            await gate.waits.wait()
        old.cancel_run(running.run_id)
        old.end_run(running.run_id)
        await host.wait_free([running.run_id])
        assert old.closed.done()
        gate.open.set()
        assert await host.connection(key) is not old


async def test_a_restart_is_finished_although_nobody_waits_for_it(tmp_path: Path) -> None:
    gate = Gate()
    async with supervisor(tmp_path, start=gate.start) as (host, _):
        key = host.add(write_wire(tmp_path / "wire"))
        old: PluginConnection = await host.connection(key)
        gate.close()
        restart = asyncio.create_task(host.restart(key))
        await gate.waits.wait()
        restart.cancel()
        await asyncio.wait([restart])
        gate.open.set()
        await old.closed
        assert await host.connection(key) is not old
