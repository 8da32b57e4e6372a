"""A hostile plugin in the sandbox: whatever it tries does not work, and nothing of it is left.

On every mechanism that this machine offers, as root and as an ordinary user. What it says of itself counts
little: sockets that count, files and /proc outside say whether something came of it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.sandbox.port import MIB
from hostler.sandbox.probe import find_sandbox
from support.hostile_runs import CANARY, Tried, combinations, tried
from support.plugin_runs import run, until_none_living

pytestmark = [
    pytest.mark.gate("sandbox-reach", "sandbox-mechanisms"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]

HOSTILE = Path(__file__).parents[1] / "support" / "plugins" / "hostile"
BOUND_SECONDS = 50.0
"""Of whatever is waited for; it only has to end what hangs."""
OUTSIDE = str(Path("/tmp") / "pwned-by-hostile")
REFUSED: dict[str, dict[str, Any]] = {
    "home": {"try": "read", "path": "{home}"},
    "home's folder": {"try": "list_folder", "path": "{folder}/home"},
    "database": {"try": "read", "path": "{database}"},
    "another plugin's workspace": {"try": "read", "path": "{foreign}"},
    "another plugin's code": {"try": "read", "path": "{code}"},
    "passwords": {"try": "read", "path": "/etc/shadow"},
    "by a link": {"try": "through_link", "path": "{home}"},
    "by a hard link": {"try": "hard_link", "path": "{home}"},
    "write home": {"try": "write", "path": "{folder}/home/.profile"},
    "write database": {"try": "write", "path": "{database}"},
    "write own code": {"try": "write", "path": "{own}/hostile.py"},
    "write settings": {"try": "write", "path": "/etc/pwned-by-hostile"},
    "write programs": {"try": "write", "path": "/usr/lib/pwned-by-hostile"},
    "write by a link": {"try": "through_link", "path": "{folder}/home/.profile", "how": "write"},
    "archive with an absolute path": {"try": "unpack", "how": "absolute", "path": "{folder}/home/.one"},
    "archive with a path upwards": {"try": "unpack", "how": "above", "path": "{folder}/home/.two"},
    "archive with a link": {"try": "unpack", "how": "link", "path": "{folder}/home/.three"},
    "archive with a hard link": {"try": "unpack", "how": "hard link", "path": "{database}"},
    "archive with a device": {"try": "unpack", "how": "device", "path": ""},
    "tcp": {"try": "tcp", "port": "{tcp!}"},
    "tcp elsewhere": {"try": "tcp", "port": 9, "host": "192.0.2.1"},
    "udp": {"try": "udp", "port": "{udp!}"},
    "unix": {"try": "unix", "path": "{socket}"},
    "abstract unix": {"try": "unix", "path": "@{folder}"},
    "unix pair": {"try": "unix_pair", "path": "{folder}/datagrams"},
    "memory of the first process": {"try": "memory_of", "pid": 1},
    "memory of the host": {"try": "memory_of", "pid": "{pid!}"},
    "own memory as a file": {"try": "memory_of", "pid": "self"},
    "raw": {"try": "raw"},
    "packet": {"try": "packet"},
    "signal": {"try": "signal_to", "pid": "{pid!}"},
    "limits of the host": {"try": "limits_of", "pid": "{pid!}"},
    "priority of the host": {"try": "priority_of", "pid": "{pid!}"},
    "trace": {"try": "trace", "pid": "{pid!}"},
    "user namespace": {"try": "user_namespace"},
    "mount": {"try": "mount"},
    "root": {"try": "root_again"},
    "keys": {"try": "keys"},
    "programs in the kernel": {"try": "programs"},
    "uring": {"try": "uring"},
    "more than its limits": {"try": "raise_limits"},
    "large file": {"try": "large_file"},
    "memory at once": {"try": "memory_at_once"},
}
"""What fails, and leaves the plugin running."""
TOLD = {
    "home": "refused: reading {home}: ",
    "home's folder": "refused: reading {folder}/home: ",
    "database": "refused: reading {database}: ",
    "another plugin's workspace": "refused: reading {foreign}: ",
    "another plugin's code": "refused: reading {code}: ",
    "passwords": "refused: reading /etc/shadow: ",
    "by a link": "refused: reading {home} through a link ({workspace}/link-",
    "by a hard link": "refused: linking {home}: ",
    "write home": "refused: writing {folder}/home/.profile: ",
    "write database": "refused: writing {database}: ",
    "write own code": "refused: writing {own}/hostile.py: ",
    "write settings": "refused: writing /etc/pwned-by-hostile: ",
    "write programs": "refused: writing /usr/lib/pwned-by-hostile: ",
    "write by a link": "refused: writing {folder}/home/.profile through a link ({workspace}/link-",
    "archive with an absolute path": "refused: writing {folder}/home/.one: ",
    "archive with a path upwards": "refused: writing {folder}/home/.two by way of .. (",
    "archive with a link": "refused: writing {folder}/home/.three through a link (",
    "archive with a hard link": "refused: linking {database}: ",
    "archive with a device": "refused: making a device",
    "large file": "refused: the file {workspace}/large has 2.0 MiB; ",
    "memory at once": "refused: a process requested 16,384.0 MiB of memory at once",
    "environment": "refused: reading /proc/{pid}/environ: ",
    "descriptors": "refused: a process has 128 files and sockets open; ",
    "endless message": "failed: the connection was closed: a message of 12,582,912 bytes is over the limit",
    "errors": "refused: it writes over 16,384 bytes of errors a second: ",
    "daemon": "refused: processes that left its session: 1; ",
    "memory": "of memory; 160.0 MiB are allowed",
    "processes": "processes and threads; 40 are allowed",
    "disk": "MiB in its folders; 8.0 MiB are allowed",
    "files": "limit: over 300 files and folders; ",
    "tcp": "refused: socket: TCP sockets",
    "tcp elsewhere": "refused: connecting to 192.0.2.1:9: ",
    "udp": "refused: socket: UDP sockets",
    "unix": "refused: socket: Unix sockets",
    "raw": "refused: socket: IPv4 raw sockets",
    "packet": "refused: socket: packet raw sockets",
    "limits of the host": "refused: the system call prlimit64",
    "priority of the host": "refused: the system call setpriority",
    "trace": "refused: the system call ptrace",
    "user namespace": "refused: the system call unshare",
    "mount": "refused: the system call mount",
    "keys": "refused: the system call keyctl",
    "programs in the kernel": "refused: the system call bpf",
}
"""What stands in its log; each thing once in the life of a process."""
UNTOLD = {"bubblewrap": {"unix", "tcp"}, "landlock": {"tcp elsewhere"}}
"""With namespaces a socket may be made, and nothing of the machine is found by it; without, none is made."""
HARMLESS: dict[str, dict[str, Any]] = {
    "own socket": {"try": "own_socket"},
    "own port": {"try": "own_port"},
    "environment": {"try": "environment", "pid": "{pid!}"},
    "descriptors": {"try": "descriptors"},
    "own temporary file": {"try": "write", "path": OUTSIDE},
    "errors": {"try": "errors", "kib": 200},
    "daemon": {"try": "daemon", "seconds": 86399},
}
KILLED: dict[str, dict[str, Any]] = {
    "memory": {"try": "memory", "mib": 220},
    "processes": {"try": "forks"},
    "disk": {"try": "disk"},
    "files": {"try": "many_files"},
}
"""What ends with the plugin, by the name of the limit."""
BROKEN_OFF = {"endless message": {"try": "output", "mib": 12}}
"""What ends with the plugin for another reason."""
ATTEMPTS = json.dumps([{"name": n, **a} for n, a in (REFUSED | HARMLESS | KILLED | BROKEN_OFF).items()])
PLACES = combinations() if sys.platform == "linux" else []


def every(names: Iterable[str]) -> pytest.MarkDecorator:
    """Each of these, on each mechanism as each user; those of one host stand together."""
    cases = [(mechanism, user, name) for mechanism, user in PLACES for name in names]
    return pytest.mark.parametrize(("mechanism", "user", "name"), cases)


def found(mechanism: str, user: str) -> Tried:
    return tried(mechanism, user, ATTEMPTS)


@pytest.mark.gate("sandboxed-files")
@every(REFUSED)
def test_it_does_not_work(mechanism: str, user: str, name: str) -> None:
    answer = found(mechanism, user).of(name)
    assert "got" not in answer, answer
    assert answer["error"] != "nothing came of it in time"
    assert CANARY not in str(answer)


@pytest.mark.parametrize(("mechanism", "user"), PLACES)
def test_each_is_told_apart_in_its_log_and_to_the_host(mechanism: str, user: str) -> None:
    made = found(mechanism, user)
    everything = "; ".join(made.told(each) for each in made.results)
    lines: dict[str, str] = {}
    expected = {name: told for name, told in TOLD.items() if name not in UNTOLD[mechanism]}
    for name, told in expected.items():
        wanted = made.filled(told)
        line = next((note for note in made.notes if wanted in note), None)
        assert line is not None, (name, wanted, made.notes)
        assert wanted.removeprefix("failed: ") in everything, (name, wanted)
        lines[name] = line
    assert len(set(lines.values())) == len(expected)


@every(KILLED)
def test_a_limit_that_it_reaches_ends_it_and_is_named(mechanism: str, user: str, name: str) -> None:
    made = found(mechanism, user)
    assert f"killed at its limit of {name}" in made.of(name).get("ended", ""), made.of(name)
    assert "limit: " in made.told(name)


@pytest.mark.parametrize(("mechanism", "user"), PLACES)
@pytest.mark.parametrize("how", ["own socket", "own port"])
def test_its_processes_talk_to_each_other_where_it_has_namespaces(
    mechanism: str, user: str, how: str
) -> None:
    answer = found(mechanism, user).of(how)
    if mechanism == "bubblewrap":
        assert answer["got"] == "connected"
    else:
        assert answer["error"].startswith("PermissionError: ")


@pytest.mark.parametrize(("mechanism", "user"), PLACES)
def test_a_fast_writer_is_found_out_before_it_has_written_much_too_much(mechanism: str, user: str) -> None:
    made = found(mechanism, user)
    assert 8 * MIB <= made.largest <= 16 * MIB


@pytest.mark.gate("sandboxed-files")
@pytest.mark.parametrize(("mechanism", "user"), PLACES)
def test_nothing_outside_saw_anything_of_it(mechanism: str, user: str) -> None:
    made = found(mechanism, user)
    assert made.reached == []
    assert made.pwned == []
    assert made.of("daemon")["got"] == "left"
    assert made.left == []
    assert mechanism in made.promised


@pytest.mark.gate("child-environments")
@pytest.mark.parametrize(("mechanism", "user"), PLACES)
def test_it_finds_no_secret_in_any_environment_and_few_descriptors(mechanism: str, user: str) -> None:
    made = found(mechanism, user)
    variables = json.loads(made.of("environment")["got"])
    assert CANARY not in json.dumps(variables)
    assert {"OPENAI_API_KEY", "SUDO_USER", "HOSTLER_ADMIN_KEY"}.isdisjoint(variables)
    opened, _, why = made.of("descriptors")["got"].partition(" then ")
    assert int(opened) < 128
    assert why == "Too many open files"


@pytest.mark.gate("process-ends")
@pytest.mark.parametrize("mechanism", sorted({mechanism for mechanism, _ in PLACES}))
async def test_nothing_outlives_a_shim_that_is_killed_by_force(mechanism: str, tmp_path: Path) -> None:
    shutil.copytree(HOSTILE, tmp_path / "hostile")
    supervisor = Supervisor(tmp_path / "data", sandbox=lambda: find_sandbox(mechanism))  # type: ignore[arg-type]
    key = supervisor.add(Folder(tmp_path / "hostile"))
    connection = await supervisor.connection(key)
    marker = next((tmp_path / "data" / "plugins" / "processes").iterdir()).stem
    async with asyncio.timeout(BOUND_SECONDS):
        await run(connection, json.dumps({"try": "daemon", "seconds": 86396}))
        pid = supervisor.status()[0].pid
        assert pid is not None
        shim = psutil.Process(pid).parent()
        assert shim is not None
        shim.kill()
        await until_none_living(marker)
        await until_none_living("time.sleep(86396)")
    await supervisor.close(0)
