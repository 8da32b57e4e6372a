"""Plugins that are started to learn what they offer: served from then on, or gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace

from hostler.host.bundled import bundled
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from support.plugin_runs import WIRE_PLUGIN, run, until_none_living

KEY = "test/wire"


def wire(folder: Path, at_start: str = "") -> Folder:
    folder.mkdir(parents=True)
    start = f"import runpy\n{at_start}\nrunpy.run_path({str(WIRE_PLUGIN)!r}, run_name='__main__')\n"
    (folder / "main.py").write_text(start)
    manifest = {"plugin": {"author": "test", "name": "wire"}, "command": ["python", "main.py"]}
    (folder / "hostler.yaml").write_text(json.dumps(manifest))
    return Folder(folder, level="trusted")


@contextlib.asynccontextmanager
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    host = Supervisor(tmp_path / "data")
    register = tmp_path / "data" / "plugins" / "processes"
    try:
        async with asyncio.timeout(110):
            yield host
    finally:
        markers = [path.stem for path in register.glob("*.json")]
        await host.close(2.0)
        for marker in markers:
            await until_none_living(marker)
        assert list(register.glob("*.json")) == []


async def test_what_was_looked_at_is_served_by_the_same_process(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as host:
        source = wire(tmp_path / "wire")
        found = await host.discovery.learn({KEY: source}, 100)
        runners = found[KEY].runners
        assert runners is not None
        assert list(runners) == ["default"]
        assert KEY not in host
        assert not host.catalog.knows(KEY)
        register = list((tmp_path / "data" / "plugins" / "processes").glob("*.json"))
        assert len(register) == 1
        host.put(KEY, source)
        await host.discovery.close()
        assert host.catalog.knows(KEY)
        assert host.status()[0].state == "ready"
        assert (await run(await host.connection(KEY), "echo hello")).texts == ["hello"]
        assert list((tmp_path / "data" / "plugins" / "processes").glob("*.json")) == register


async def test_what_nobody_takes_is_gone(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as host:
        source = wire(tmp_path / "wire")
        await host.discovery.learn({KEY: source}, 100)
        host.put(KEY, replace(source, network=("example.com:443",)))  # another one than was looked at
        (marker,) = [path.stem for path in (tmp_path / "data" / "plugins" / "processes").glob("*.json")]
        await host.discovery.close()
        await until_none_living(marker)
        assert host.status()[0].state == "stopped"


async def test_one_that_does_not_start_says_why_and_hides_no_other(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as host:
        broken = wire(tmp_path / "broken", "raise SystemExit('no way')")
        found = await host.discovery.learn({"test/broken": broken, KEY: wire(tmp_path / "wire")}, 100)
        assert found["test/broken"].runners is None
        assert "its manifest now names test/wire" in found["test/broken"].why
        assert found[KEY].runners is not None
        await host.discovery.close()


async def test_one_that_takes_too_long_is_not_known_and_can_still_be_served(tmp_path: Path) -> None:
    async with supervisor(tmp_path) as host:
        gate = tmp_path / "gate"
        wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
        source = wire(tmp_path / "wire", wait)
        found = await host.discovery.learn({KEY: source}, 0.05)
        assert found[KEY].runners is None
        assert "did not start within 0.05 seconds" in found[KEY].why
        host.put(KEY, source)
        await host.discovery.close()
        gate.touch()
        assert (await run(await host.connection(KEY), "echo late")).texts == ["late"]
        assert host.catalog.knows(KEY)


async def test_one_beside_a_plugin_that_is_served_leaves_its_workspace_alone(tmp_path: Path) -> None:
    folder = tmp_path / "echo"
    shutil.copytree(bundled("examples", "echo"), folder)
    with (folder / "echo.py").open("a") as file:
        file.write("\nimport os\nopen(os.environ['HOSTLER_PLUGIN_WORKSPACE'] + '/kept', 'a').write('x')\n")
    workspace = tmp_path / "data" / "plugins" / "workspaces" / "acme" / "echo"
    async with supervisor(tmp_path) as host:
        source = Folder(folder)
        key = host.add(source)
        await host.connection(key)
        assert (workspace / "kept").read_text() == "x"
        smaller = replace(source, limits=replace(source.limits, files=1))
        found = await host.discovery.learn({key: smaller}, 100, apart=[key])
        assert found[key].runners is not None, found[key].why
        assert len(list((tmp_path / "data" / "plugins" / "trials").iterdir())) == 1
        assert host.discovery.take(key, smaller) is None
        await host.discovery.close()
        assert list((tmp_path / "data" / "plugins" / "trials").iterdir()) == []
        assert (workspace / "kept").read_text() == "x"


async def test_what_a_dead_host_left_of_its_trials_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "data" / "plugins" / "trials" / "0123" / "acme" / "echo"
    left.mkdir(parents=True)
    (left / "kept").write_text("x")
    async with supervisor(tmp_path) as host:
        host.sweep_orphans()
        assert not left.exists()
