"""Users of sandboxes: no name gets the user of another one, whatever it is, also after a restart."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.sandbox.port import MIB, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_capabilities, find_sandbox
from hostler.sandbox.users import FEW_IDS, UNUSED_IDS, SandboxUsers
from hostler_protocol.errors import UnavailableError

pytestmark = [
    pytest.mark.gate("sandbox-users"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
MECHANISMS = asyncio.run(find_capabilities()).mechanisms if sys.platform == "linux" else ()
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives each sandbox a user of its own")
BOUND_SECONDS = 60.0


def same_digest() -> tuple[str, str]:
    """Two names that a digest of six digits does not tell apart; anyone finds such names at once."""
    found: dict[int, str] = {}
    for number in range(20_000):
        name = f"plugin evil/p{number}"
        digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % 1_000_000
        if digest in found:
            return found[digest], name
        found[digest] = name
    raise AssertionError("none found")


@as_root
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_plugins_cannot_choose_names_that_share_a_user(mechanism: str, folder: Path) -> None:
    seen: dict[str, set[int]] = {}
    for _ in range(2):  # hosts one after the other
        users = SandboxUsers(folder / "users.json")
        sandbox = await find_sandbox(mechanism, users=users)  # type: ignore[arg-type]
        for name in same_digest():
            own = folder / name.replace("/", "-")
            own.mkdir(exist_ok=True)
            spec = SandboxSpec(
                name,
                [os.path.realpath(sys.executable), "-I", "-S", "-c", "import os; print(os.getuid())"],
                own,
                {},
                writable=(own,),
                limits=SandboxLimits(memory_bytes=256 * MIB, seconds=BOUND_SECONDS, output_bytes=1000),
            )
            made = await sandbox.run(spec)
            assert made.status.code == 0, made.stderr
            seen.setdefault(name, set()).add(int(made.stdout))
            assert seen[name] == {own.stat().st_uid}
    assert [len(uids) for uids in seen.values()] == [1, 1]
    assert len(set().union(*seen.values())) == 2


def test_ids_are_kept_and_never_twice(tmp_path: Path) -> None:
    path = tmp_path / "data" / "users.json"
    users = SandboxUsers(path)
    names = [f"plugin a/{number}" for number in range(200)]
    first = {name: users.lend(name) for name in names}
    assert len(set(first.values())) == 200
    assert all(uid in UNUSED_IDS or uid in FEW_IDS for uid in first.values())
    again = SandboxUsers(path)
    assert {name: again.lend(name) for name in reversed(names)} == first
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_id_is_given_up_by_the_idle_name_that_was_not_used_for_longest(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    users = SandboxUsers(path, most=3)
    running = users.lend("running")
    old = users.lend("old")
    users.give_back("old")
    users.lend("third")
    kept = json.loads(path.read_bytes())
    kept["old"][1] -= 40  # days
    kept["running"][1] -= 50
    path.write_text(json.dumps(kept))
    users = SandboxUsers(path, most=3)
    assert users.lend("running") == running
    users.lend("fourth")
    assert set(json.loads(path.read_bytes())) == {"running", "third", "fourth"}
    assert users.lend("running") == running
    assert users.lend("old") not in {running, users.lend("third"), users.lend("fourth")}
    assert old in UNUSED_IDS or old in FEW_IDS


@pytest.mark.parametrize(
    "content",
    [
        '{"plugin a/b": ["x", 1]}',
        "{",
        '{"plugin a/b": [1900000001, 1], "plugin a/c": [1900000001, 1]}',
        '{"plugin a/b": [0, 1]}',
    ],
)
def test_a_file_that_nobody_wrote_is_refused_by_name(content: str, tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(content)
    with pytest.raises(UnavailableError, match=r"users\.json .*delete it, and every sandbox gets a new user"):
        SandboxUsers(path).lend("plugin a/b")


IN_A_CONTAINER = """
import ctypes, os, sys
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    os.write(ready[1], b"u")
    os.read(go[0], 1)
    from hostler.sandbox.users import SandboxUsers
    users = SandboxUsers()
    try:
        print(sorted({users.lend(str(number)) for number in range(50)}))
    except Exception as error:
        print(error)
    sys.stdout.flush()
    os._exit(0)
os.read(ready[0], 1)
for kind in ("uid_map", "gid_map"):
    with open(f"/proc/{child}/{kind}", "w") as file:
        file.write(f"0 0 {sys.argv[1]}")
os.write(go[1], b"g")
os.waitpid(child, 0)
"""


@as_root
def test_a_container_that_has_few_ids_gives_each_name_one_of_them_or_says_what_is_missing() -> None:
    def said(ids: int) -> str:
        command = [sys.executable, "-c", IN_A_CONTAINER, str(ids)]
        made = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    uids = json.loads(said(65_536))
    assert len(uids) == 50
    assert all(uid in FEW_IDS for uid in uids)
    assert "no user id is free for another sandbox: a container has to map ids from 20000 to 59999" in said(1)
