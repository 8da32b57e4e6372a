"""A plugin's own environment: built once by uv without a network where nothing asks for one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from hostler.plugins import environment
from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS, StartLimits
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler_protocol.errors import PluginStartError
from support.packages import write_wheel
from support.plugin_runs import run

TINY = "./tiny-1.0-py3-none-any.whl"
"""A wheel in the plugin's own folder, which its operator lists."""


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")


def _environments(tmp_path: Path, limits: StartLimits = DEFAULT_START_LIMITS) -> Environments:
    return Environments(tmp_path / "environments", limits)


def _ask(python: str, code: str) -> str:
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_without_requirements_the_hosts_own_interpreter_serves(tmp_path: Path) -> None:
    environments = _environments(tmp_path)
    assert await environments.python_for((), base=tmp_path) == sys.executable
    assert not environments.folder.exists()


async def test_an_environment_holds_what_is_required_and_the_hosts_own_sdk_and_is_built_once(
    tmp_path: Path,
) -> None:
    # a package that itself asks for the SDK must find the host's, not look for it in an index
    write_wheel(tmp_path, requires="hostler-sdk")
    both = (_environments(tmp_path), _environments(tmp_path))  # two hosts on one folder
    builds = (e.python_for([TINY], base=tmp_path, allowed=[TINY]) for e in both for _ in range(3))
    pythons = set(await asyncio.gather(*builds))
    assert len(pythons) == 1
    python = pythons.pop()
    assert python != sys.executable
    code = "import tiny, hostler_sdk, hostler_protocol.link; print(tiny.VALUE, hostler_sdk.__file__)"
    value, where = _ask(python, code).split()
    assert value == "1"
    assert where.startswith(str(tmp_path / "environments"))
    with pytest.raises(AssertionError, match="No module named 'uvicorn'"):
        _ask(python, "import uvicorn")
    built = [path for path in (tmp_path / "environments").iterdir() if path.is_dir()]
    assert built == [Path(python).parent.parent]


async def test_changed_requirements_give_another_environment(tmp_path: Path) -> None:
    environments = _environments(tmp_path)
    write_wheel(tmp_path)
    first = await environments.python_for([TINY], base=tmp_path, allowed=[TINY])
    write_wheel(tmp_path, text="VALUE = 22\n")
    second = await environments.python_for([TINY], base=tmp_path, allowed=[TINY])
    assert first != second
    assert _ask(second, "import tiny; print(tiny.VALUE)") == "22"


@pytest.mark.parametrize(
    ("requires", "says"),
    [
        (["surely-not-a-package-of-anybody==9"], "surely-not-a-package-of-anybody"),
        (["./missing.whl"], "missing.whl"),
    ],
)
async def test_a_failing_build_gives_uvs_reason_in_a_line_and_leaves_nothing(
    tmp_path: Path, requires: list[str], says: str
) -> None:
    with pytest.raises(PluginStartError) as caught:
        await _environments(tmp_path).python_for(requires, base=tmp_path, allowed=["./missing.whl"])
    assert caught.value.message.startswith("its environment cannot be built: ")
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert [path for path in (tmp_path / "environments").iterdir() if path.is_dir()] == []


async def test_a_host_killed_while_building_leaves_no_half_environment(tmp_path: Path) -> None:
    write_wheel(tmp_path)
    code = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from hostler.plugins.environment import Environments\n"
        "from hostler.plugins.limits import DEFAULT_START_LIMITS\n"
        f"base = Path({str(tmp_path)!r})\n"
        "e = Environments(base / 'environments', DEFAULT_START_LIMITS)\n"
        f"asyncio.run(e.python_for([{TINY!r}], base=base, allowed=[{TINY!r}]))\n"
    )
    folder = tmp_path / "environments"
    with subprocess.Popen([sys.executable, "-c", code]) as host:
        while not list(folder.glob(".building-*/environment/pyvenv.cfg")) and host.poll() is None:
            pass
        host.send_signal(signal.SIGKILL)
    python = await _environments(tmp_path).python_for([TINY], base=tmp_path, allowed=[TINY])
    assert _ask(python, "import tiny, hostler_sdk; print(tiny.VALUE)") == "1"


async def test_environments_that_are_not_used_are_swept(tmp_path: Path) -> None:
    async def build(value: int, limits: StartLimits) -> Path:
        write_wheel(tmp_path, text=f"VALUE = {10**value}\n")
        environments = _environments(tmp_path, limits)
        python = await environments.python_for([TINY], base=tmp_path, allowed=[TINY])
        return Path(python).parent.parent

    first, second = [await build(n, DEFAULT_START_LIMITS) for n in range(2)]
    long_ago = first.stat().st_mtime - 31 * 24 * 3600
    os.utime(first, (long_ago, long_ago))
    half = tmp_path / "environments" / ".building-0123"
    half.mkdir()
    os.utime(half, (long_ago, long_ago))
    third = await build(2, DEFAULT_START_LIMITS)
    assert not first.exists()
    assert not half.exists()
    assert second.exists()
    fourth = await build(3, replace(DEFAULT_START_LIMITS, environments=1))
    assert [second.exists(), third.exists(), fourth.exists()] == [False, False, True]


async def test_a_plugin_with_requirements_serves_from_its_own_environment(tmp_path: Path) -> None:
    folder = tmp_path / "needy"
    folder.mkdir()
    write_wheel(folder, text="VALUE = 'from the wheel'\n")
    (folder / "hostler.yaml").write_text(
        "plugin: {author: acme, name: needy}\n"
        'runners: [{name: default, entry: "needy:Needy"}]\n'
        'requires: ["./tiny-1.0-py3-none-any.whl"]\n'
    )
    (folder / "needy.py").write_text(
        "import tiny\nfrom hostler_sdk import Runner\n\n"
        'class Needy(Runner):\n    """Needs."""\n\n    async def run(self, ctx):\n        return tiny.VALUE\n'
    )
    supervisor = Supervisor(tmp_path / "data")
    connection = await supervisor.connection(supervisor.add(Folder(folder, allow_requires=(TINY,))))
    assert (await run(connection, "hello")).texts == ["from the wheel"]
    await supervisor.close(5.0)


async def test_the_hosts_bridge_is_lent_to_environments_that_require_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_wheel(tmp_path)
    environments = _environments(tmp_path)
    without = await environments.python_for([TINY], base=tmp_path, allowed=[TINY])
    requires = ["hostler-langbot", TINY]
    python = await environments.python_for(requires, base=tmp_path, allowed=[TINY])
    where = _ask(python, "import hostler_langbot.child; print(hostler_langbot.__file__)")
    assert where.startswith(str(Path(python).parent.parent))
    with pytest.raises(AssertionError, match="No module named 'hostler_langbot'"):
        _ask(without, "import hostler_langbot")
    monkeypatch.setitem(environment.LENT_PACKAGES, "hostler_nowhere", "hostler-nowhere")
    with pytest.raises(PluginStartError, match="it requires hostler-nowhere, which this host does not have"):
        await environments.python_for(["hostler-nowhere"], base=tmp_path)
