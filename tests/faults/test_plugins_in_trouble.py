"""Whatever a plugin leaves behind, the host starts, says what is wrong with it, and serves the others."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.events import Caller
from hostler.host.config import ConfigFile, PluginEntry, PluginLimitsEntry, Settings
from hostler.host.host import Host
from hostler.storage.stores import agents
from hostler.tools.workspaces.tree_removal import remove_tree
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import EventEnvelope, Input

pytestmark = pytest.mark.gate("plugins-in-trouble")

ECHO = Path(__file__).parents[2] / "examples" / "echo"
START_SECONDS = 2.0
"""How long the host waits for plugins; those that hang take longer."""
BOUND_SECONDS = 100.0
"""Of a whole start with everything that is wrong; it only has to end what hangs."""
ORDINARY = os.geteuid() != 0


def chain(folder: Path, depth: int = 1500) -> None:
    """Folders within each other, deeper than any path can name."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a-folder-with-a-name-of-its-own", dir_fd=at)
        below = os.open("a-folder-with-a-name-of-its-own", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def fails(folder: Path) -> None:
    (folder / "echo.py").write_text("import nowhere_to_be_found\n")


def deep(folder: Path) -> None:
    chain(folder)
    fails(folder)


def odd_files(folder: Path) -> None:
    """A FIFO, a socket, loops of links, names that are no Unicode."""
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(folder)
            one.bind("socket")
        finally:
            os.chdir(here)
            os.close(here)
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    os.makedirs(os.fsencode(folder) + b"/\xff\xfe/\xfd")


def odd_files_and_fails(folder: Path) -> None:
    odd_files(folder)
    fails(folder)


def many_files(folder: Path) -> None:
    for number in range(5000):
        (folder / f"{number}.txt").touch()
    fails(folder)


def unreadable(folder: Path) -> None:
    (folder / "closed").mkdir()
    (folder / "closed" / "file").touch()
    (folder / "closed").chmod(0)
    fails(folder)


def requires_a_path(folder: Path) -> None:
    with (folder / "hostler.yaml").open("a") as file:
        file.write('requires: ["./evil"]\n')


def closed_folder(folder: Path) -> None:
    folder.chmod(0)


def manifest(write: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "hostler.yaml").unlink()
        write(folder / "hostler.yaml")

    return change


def code(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "echo.py").write_text(text)

    return change


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefghijkl", "bcdefghijklm", strict=True)
)
WHOLE = "plugin: {author: acme, name: NAME, version: 1}\n"

BROKEN: dict[str, Callable[[Path], None]] = {
    "fails": fails,
    "deep": deep,
    "odd-files": odd_files_and_fails,
    "many-files": many_files,
    "unreadable": unreadable,
    "no-manifest": manifest(lambda path: None),
    "manifest-is-a-fifo": manifest(os.mkfifo),
    "manifest-is-endless": manifest(lambda path: path.symlink_to("/dev/zero")),
    "manifest-is-a-loop": manifest(lambda path: path.symlink_to("hostler.yaml")),
    "manifest-is-a-folder": manifest(Path.mkdir),
    "manifest-is-huge": manifest(lambda path: path.write_text(WHOLE + "# " + "x" * 8_000_000)),
    "manifest-is-a-bomb": manifest(lambda path: path.write_text(WHOLE + BOMB)),
    "manifest-is-nested": manifest(lambda path: path.write_text(WHOLE + "runners: " + "[" * 60_000)),
    "manifest-is-no-text": manifest(lambda path: path.write_bytes(b"\xff\xfe\x00\x01\x02")),
    "manifest-has-a-long-number": manifest(lambda path: path.write_text(WHOLE + "x: " + "9" * 60_000)),
    "manifest-has-a-date": manifest(lambda path: path.write_text(WHOLE + "x: 2020-01-01")),
    "requires-a-path": requires_a_path,
    "gone": shutil.rmtree,
    "hangs": code("import time\ntime.sleep(3600)\n"),
    "spins": code("while True: pass\n"),
    "floods-its-log": code("import sys\nwhile True: sys.stderr.write('x' * 65536 + '\\n')\n"),
    "floods-the-wire": code("import os\nwhile True: os.write(3, b'x' * 65536)\n"),
    "dies": code("import os\nos.abort()\n"),
    **({"closed": closed_folder} if ORDINARY else {}),
}
HARMLESS: dict[str, Callable[[Path], None]] = {
    "harmless-chain": chain,
    "harmless-odd-files": odd_files,
}


def plugin(folder: Path, name: str) -> PluginEntry:
    shutil.copytree(ECHO, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / name / "hostler.yaml"
    path.write_text(path.read_text().replace("name: echo", f"name: {name}"))
    return PluginEntry(path=str(folder / name), limits=PluginLimitsEntry(files=3000))


async def says(host: Host, name: str) -> str:
    """What an agent of the plugin answers."""
    spec = AgentSpec(name=name, runner=f"plugin:acme/{name}/default", event_types=[])
    await host.db.write(lambda tx: agents.apply(tx, "default", spec))
    host.event_router.changed("default")
    caller = Caller("default", "tester", "key")
    said = EventEnvelope(event_type="message.received", input=Input(text="hi"), agent=name)
    accepted = await host.orchestrator.accept(said, caller)
    assert accepted.run is not None
    ended = await host.runs.wait("default", accepted.run.run_id, 60)
    return ended.output.text if ended.output is not None else str(ended.status)


async def test_the_host_starts_whatever_its_plugins_became(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    names = ["fine", *BROKEN, *HARMLESS]
    settings = Settings(data_dir=tmp_path / "data", port=0, plugin_start_seconds=START_SECONDS)
    passive = Settings(data_dir=tmp_path / "data", port=0, passive=True)

    try:
        async with asyncio.timeout(BOUND_SECONDS):
            async with Host.open(passive) as host:
                await host.apply(ConfigFile(plugins=[plugin(folder, name) for name in names]), actor="test")
                requires_a_path((folder / "fine").rename(folder / "never-applied"))
                with pytest.raises(InvalidArgumentError, match=r"'\./evil' is no requirement by name"):
                    await host.apply(ConfigFile(plugins=[str(folder / "never-applied")]), actor="test")
                shutil.rmtree(folder / "never-applied")
                plugin(folder, "fine")
            for name, change in (BROKEN | HARMLESS).items():
                change(folder / name)
            began = time.monotonic()
            async with Host.open(settings) as host:
                assert host.state == "ready"
                assert time.monotonic() - began < BOUND_SECONDS / 2
                for name in ("fine", *HARMLESS):
                    assert await says(host, name) == "hi!", name
                wrong: dict[str, str] = {}
                fail = ("fails", "deep", "odd-files", "many-files", "unreadable")
                # starts that hang are told of after ten seconds
                while len(wrong) < len(BROKEN) or any("still" in wrong[name] for name in fail):
                    wrong = {one.name.removeprefix("acme/"): one.problem for one in await host.problems()}
                    await asyncio.sleep(0.2)
                assert wrong.keys() == BROKEN.keys()
                for name in fail:
                    assert "nowhere_to_be_found" in wrong[name]
                assert "'./evil' is no requirement by name" in wrong["requires-a-path"]
                for name in ("hangs", "spins", "floods-its-log"):
                    assert "still starting" in wrong[name]
                for name in BROKEN:
                    if name.startswith("manifest-"):
                        assert "hostler.yaml" in wrong[name]
                states = {one.key: one.state for one in host.supervisor.status()}
                for name in BROKEN:
                    assert states[f"acme/{name}"] in ("failed", "waiting", "starting"), name
    finally:
        remove_tree(folder)


@pytest.mark.parametrize("closed", [False, True])
async def test_a_workspace_that_nobody_can_walk_through_is_emptied(tmp_path: Path, closed: bool) -> None:
    """What a sandboxed plugin left in its own folder is walked through before it starts."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    settings = Settings(data_dir=tmp_path / "data", port=0, plugin_start_seconds=20.0)
    workspaces = tmp_path / "data" / "plugins" / "workspaces" / "acme"

    try:
        async with asyncio.timeout(BOUND_SECONDS):
            async with Host.open(settings) as host:
                await host.apply(ConfigFile(plugins=[plugin(folder, "left")]), actor="test")
                assert await says(host, "left") == "hi!"
            for name in ("left", "gone"):
                (workspaces / name).mkdir(exist_ok=True)
                chain(workspaces / name)
                os.mkfifo(workspaces / name / "fifo")
                if closed:
                    (workspaces / name / "closed" / "inner").mkdir(parents=True)
                    (workspaces / name / "closed").chmod(0)
                os.utime(workspaces / name, (0, 0))
            async with Host.open(settings) as host:
                assert await says(host, "left") == "hi!"
            assert not (workspaces / "left" / "fifo").exists()
            assert not (workspaces / "gone").exists()
    finally:
        remove_tree(workspaces)
