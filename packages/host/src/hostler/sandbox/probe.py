"""Which mechanism holds on this machine, found out by making real sandboxes that try to reach out."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hostler.sandbox.capabilities import SIGNALS_LANDLOCK, Ground, survey
from hostler.sandbox.machine import MachineSandbox, nobody
from hostler.sandbox.port import MIB, Mechanism, SandboxLimits, SandboxSpec, Told
from hostler_protocol.errors import UnavailableError

TRIAL_SECONDS = 30.0
"""A trial takes a tenth of a second; a busy machine may take some."""
MAX_REASON_CHARS = 200
FOREIGN_FILE = "/etc/passwd"
"""A file that every user may read and no sandbox shows."""
TRIAL = """
import _socket, sys
reached = []
for name, mode, path in zip(*[iter(sys.argv[1:])] * 3):
    try:
        open(path, mode).close()
        reached.append(name)
    except OSError:
        pass
try:
    _socket.socket().close()
    reached.append("network")
except OSError:
    pass
print(*reached)
"""
"""Its arguments are triples: a name, a mode to open with, a path. It prints the names of what it reached."""

_log = logging.getLogger(__name__)
_found: Ground | None = None
_search: asyncio.Task[Ground] | None = None


async def find_ground() -> Ground:
    """What this machine offers. The first mechanism of it was tried, and held; tried once per process."""
    global _found, _search  # noqa: PLW0603 - the machine does not change while this process runs
    if _found is None:
        loop = asyncio.get_running_loop()
        if _search is None or _search.done() or _search.get_loop() is not loop:
            _search = loop.create_task(_tried(survey()), name="sandbox probe")
        _found = await asyncio.shield(_search)
    return _found


async def find_sandbox(
    wanted: Mechanism | None = None, *, on_told: Callable[[str, Told], None] = nobody
) -> MachineSandbox:
    """The strongest sandbox of this machine, or the one that is wanted; one of `none` refuses everything.

    `on_told` hears of everything that is not let happen in any of its sandboxes, after the sandbox's name.
    """
    ground = await find_ground()
    if wanted is not None and wanted != "none" and wanted not in ground.mechanisms:
        raise UnavailableError(f"{wanted} does not work on this machine: {ground.reason()}")
    return MachineSandbox(wanted or ground.best(), ground, on_told)


async def _tried(ground: Ground) -> Ground:
    """Leave out the strongest mechanisms until one holds."""
    while ground.mechanisms:
        best = ground.best()
        wrong = await _trial(MachineSandbox(best, ground), Path("/"), {"files": ("r", FOREIGN_FILE)}, [])
        if wrong is None:
            break
        ground = dataclasses.replace(
            ground, mechanisms=ground.mechanisms[1:], why=(*ground.why, (best, wrong))
        )
    if weakness := ground.weakness(ground.best()):
        _log.warning("plugins, commands and MCP servers are %s", weakness)
    return ground


class Held(NamedTuple):
    """One mechanism here. `works`: it was tried, and held."""

    mechanism: Mechanism
    works: bool
    text: str


async def what_holds(ground: Ground) -> list[Held]:
    """Each mechanism: whether it holds on this machine as this user, and what. For `hostler doctor`."""
    why = dict(ground.why)
    found = []
    mechanisms: tuple[Mechanism, ...] = ("bubblewrap", "landlock")
    for name in mechanisms:
        if name in ground.mechanisms:
            wrong = await _try_with_files(MachineSandbox(name, ground))
            found.append(Held(name, wrong is None, wrong or _promise(name, ground)))
        else:
            found.append(Held(name, False, f"not here: {why.get(name, ground.reason())}"))
    return found


async def _try_with_files(sandbox: MachineSandbox) -> str | None:
    """A trial with a secret file beside a workspace; what it reached, or why it did not run."""
    # not below /tmp: a sandbox may write into a /tmp of its own
    with tempfile.TemporaryDirectory(prefix=".hostler-doctor-", dir=_place()) as name:
        folder = Path(name)
        secret, own = folder / "secret", folder / "own"
        secret.write_text("")
        own.mkdir()
        files = {"files": ("a", str(secret)), "workspace": ("a", str(own / "file"))}
        return await _trial(sandbox, own, files, ["workspace"])


async def _trial(
    sandbox: MachineSandbox, cwd: Path, files: dict[str, tuple[str, str]], expected: list[str]
) -> str | None:
    """Run a small program that reaches out; what it reached that is not expected, or why it did not run."""
    argv = [sys.executable, "-I", "-S", "-c", TRIAL]
    for name, (mode, path) in files.items():
        argv += [name, mode, path]
    spec = SandboxSpec(
        "probe",
        argv,
        cwd,
        {},
        writable=() if cwd == Path("/") else (cwd,),
        limits=SandboxLimits(memory_bytes=256 * MIB, seconds=TRIAL_SECONDS, output_bytes=4096),
    )
    try:
        outcome = await sandbox.run(spec)
    except UnavailableError as error:
        return f"it was found, but does not start: {_line(error.message)}"
    said = outcome.stdout.decode().split()
    if outcome.status.code != 0:
        words = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        why = f": {_line(words[-1])}" if words else ""
        return f"it was found, but a program ended in it: {outcome.status}{why}"
    if said != expected:
        return f"it does not hold: a program in it reached {', '.join(said) or 'not even its own workspace'}"
    return None


def _line(text: str) -> str:
    return " ".join(text.split())[:MAX_REASON_CHARS]


def _place() -> str | None:
    return next((place for place in ("/var/tmp", str(Path.home())) if Path(place).is_dir()), None)  # noqa: S108


def _promise(mechanism: Mechanism, ground: Ground) -> str:
    user = (
        "under a user of its own for each sandbox"
        if (ground.maps_users if mechanism == "bubblewrap" else ground.changes_user)
        else "as this user"
    )
    if mechanism == "bubblewrap":
        return (
            f"holds files, network (by name through a proxy), processes, memory and disk, {user}; "
            "nothing outlives it"
        )
    signals = "" if ground.landlock >= SIGNALS_LANDLOCK else "; signals are refused altogether"
    return (
        f"version {ground.landlock} holds files, memory and disk, {user}, and cuts off all networks; which "
        f"files and processes there are stays visible, and /proc is closed{signals}"
    )
