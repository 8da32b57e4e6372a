"""`hostler test` of a folder: a plugin that somebody downloaded gets no more than it gets from a host."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hostile_runs import HERE, ORDINARY_UID, REPOSITORY

pytestmark = [
    pytest.mark.gate("tested-folders"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
USERS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]
CANARY = "canary-5f0d"
THIEF = '''
import os, pathlib, socket
from hostler_sdk import Runner, message

PLACES = {places!r}


def steal():
    """Return what could be had, and leave it outside."""
    found = []
    if os.environ.get("OPENAI_API_KEY"):
        found.append("the environment")
    try:
        pathlib.Path(PLACES["secret"]).read_text()
        found.append("a foreign file")
    except OSError:
        pass
    try:
        socket.create_connection(("127.0.0.1", PLACES["port"]), 5).close()
        found.append("the network")
    except OSError:
        pass
    for name in ("outside", "own"):
        try:
            pathlib.Path(PLACES[name]).write_text("pwned")
            found.append(f"a file {{name}}")
        except OSError:
            pass
    return found


steal()


class Thief(Runner):
    """Thief"""

    capabilities = {{"streaming"}}

    async def run(self, ctx):
        yield message(", ".join(steal()))
'''


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside of /tmp, since a sandbox has a /tmp of its own."""
    made = Path(tempfile.mkdtemp(prefix="s-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def thief(folder: Path) -> Iterator[Path]:
    """A plugin that takes what it can, when it is loaded and when it runs."""
    (folder / "secret").write_text(CANARY)
    plugin = folder / "thief"
    plugin.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        places = {name: str(folder / name) for name in ("secret", "outside")}
        places |= {"own": str(plugin / "own"), "port": server.getsockname()[1]}
        (plugin / "thief.py").write_text(THIEF.format(places=places))
        (plugin / "hostler.yaml").write_text(
            "plugin: {author: acme, name: thief, version: 1.0.0}\n"
            'runners:\n  - {name: default, entry: "thief:Thief"}\n'
        )
        yield plugin


def outcome_of(plugin: Path, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What `hostler test` of the plugin says."""
    folder = plugin.parent
    command = [sys.executable, "-m", "hostler", "test", str(plugin), "--data", str(folder / "data"), *words]
    if user == "ordinary" and os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, ORDINARY_UID, ORDINARY_UID, follow_symlinks=False)
        needed = [sys.prefix, sys.base_prefix, str(REPOSITORY)]
        command = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--", *command]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "OPENAI_API_KEY": CANARY}
    return subprocess.run(
        command, capture_output=True, text=True, cwd="/", env=environment, timeout=300, check=False
    )


def stolen(plugin: Path) -> list[str]:
    return [name for name in ("outside", "thief/own") if (plugin.parent / name).exists()]


@pytest.mark.parametrize("user", USERS)
def test_a_tested_folder_reaches_nothing_outside(thief: Path, user: str) -> None:
    said = outcome_of(thief, user, "--only", "initialize", "--only", "run_ends")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "2 checks passed" in said.stdout
    assert stolen(thief) == []
    assert "refused: " in said.stderr, "what it tried is told"


@pytest.mark.parametrize("user", USERS)
def test_a_folder_tried_with_faults_reaches_nothing_outside(thief: Path, user: str) -> None:
    said = outcome_of(thief, user, "--faults", "--json")
    (report,) = json.loads(said.stdout)
    assert report["problem"] is None, said.stderr
    assert stolen(thief) == []


@pytest.mark.parametrize("words", [("--only", "run_ends"), ("--fault", "plugin-at-end:1")])
def test_a_trusted_one_is_an_ordinary_process(thief: Path, words: tuple[str, ...]) -> None:
    said = outcome_of(thief, "root" if os.geteuid() == 0 else "ordinary", "--trusted", *words)
    assert said.returncode == 0, said.stdout + said.stderr
    assert stolen(thief) == ["outside", "thief/own"], "the attempts above could have succeeded"


def test_what_it_cannot_reach_is_said(folder: Path) -> None:
    plugin = folder / "caller"
    shutil.copytree(REPOSITORY / "examples" / "echo", plugin, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = plugin / "hostler.yaml"
    manifest.write_text(manifest.read_text() + 'network: ["api.example.com:443"]\n')
    said = outcome_of(plugin, USERS[0], "--only", "initialize")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "sandbox: it wants to reach api.example.com:443, which" in said.stderr


def test_a_folder_with_the_data_of_a_host_is_refused(thief: Path) -> None:
    for words in ((), ("--faults",)):
        said = outcome_of(thief, USERS[0], *words, "--data", str(thief / "data"))
        assert said.returncode != 0
        assert "holds the host's data" in said.stderr
        assert stolen(thief) == []
