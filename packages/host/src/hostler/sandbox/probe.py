"""Find the mechanisms that work on this machine by running real sandboxes that try to break out."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec.structs

from hostler.sandbox.capabilities import SIGNALS_LANDLOCK, SandboxCapabilities, detect_capabilities
from hostler.sandbox.control_groups import FoundGroups, find_groups
from hostler.sandbox.machine import MachineSandbox, ignore_violation
from hostler.sandbox.port import MIB, Mechanism, SandboxLimits, SandboxSpec, Violation
from hostler.sandbox.users import OF_THIS_PROCESS, SandboxUsers
from hostler_protocol.errors import UnavailableError

TRIAL_SECONDS = 30.0
"""A trial takes a tenth of a second; the rest is for a busy machine."""
MAX_REASON_CHARS = 200
FOREIGN_FILES = (
    "/etc/hostname",
    "/etc/machine-id",
    "/etc/fstab",
    "/etc/shells",
    "/etc/profile",
    "/etc/issue",
)
"""Files that every user may read and no sandbox shows; each machine has some of them."""
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
"""Arguments: triples of a name, an open mode and a path. Prints the names of everything it reached."""

_log = logging.getLogger(__name__)
_capabilities: SandboxCapabilities | None = None
_probing: asyncio.Task[SandboxCapabilities] | None = None


async def find_capabilities() -> SandboxCapabilities:
    """Return what this machine offers. The strongest mechanism has passed a trial, run once per process."""
    global _capabilities, _probing  # noqa: PLW0603 - the machine does not change while this process runs
    if _capabilities is None:
        loop = asyncio.get_running_loop()
        if _probing is None or _probing.done() or _probing.get_loop() is not loop:
            _probing = loop.create_task(_find(), name="sandbox probe")
        _capabilities = await asyncio.shield(_probing)
    return _capabilities


async def find_sandbox(
    wanted: Mechanism | None = None,
    *,
    on_violation: Callable[[str, Violation], None] = ignore_violation,
    users: SandboxUsers = OF_THIS_PROCESS,
) -> MachineSandbox:
    """Return this machine's strongest sandbox, or the wanted one. A sandbox of `none` refuses every spec.

    `on_violation` is called with the sandbox's name and each thing that is prevented in any of its sandboxes.
    `users` are those of its sandboxes, if the host is root.
    """
    capabilities = await find_capabilities()
    if wanted is not None and wanted != "none" and wanted not in capabilities.mechanisms:
        raise UnavailableError(f"{wanted} does not work on this machine: {capabilities.reason()}")
    return MachineSandbox(wanted or capabilities.best(), capabilities, on_violation, users)


async def _find() -> SandboxCapabilities:
    capabilities = detect_capabilities()
    if not capabilities.mechanisms:
        return await _probe(capabilities)
    groups = await asyncio.to_thread(find_groups)
    found = await _probe(msgspec.structs.replace(capabilities, groups=groups))
    if not found.mechanisms and groups.groups is not None:  # do without groups rather than without a sandbox
        _log.warning("no sandbox works in control groups: %s; limits are looked at instead", found.reason())
        why = FoundGroups(why=f"no sandbox works in them: {found.reason()}")
        found = await _probe(msgspec.structs.replace(capabilities, groups=why))
    return found


async def _probe(capabilities: SandboxCapabilities) -> SandboxCapabilities:
    """Drop the strongest mechanisms until one passes its trial."""
    while capabilities.mechanisms:
        best = capabilities.best()
        failure = await _trial(
            MachineSandbox(best, capabilities), Path("/"), {"files": ("r", foreign_file())}, []
        )
        if failure is None:
            break
        capabilities = msgspec.structs.replace(
            capabilities, mechanisms=capabilities.mechanisms[1:], why=(*capabilities.why, (best, failure))
        )
    if weakness := capabilities.weakness(capabilities.best()):
        _log.warning("plugins, commands and MCP servers are %s", weakness)
    return capabilities


class MechanismCheck(NamedTuple):
    """The check of one mechanism. `works`: it passed a trial."""

    mechanism: Mechanism
    works: bool
    text: str


async def check_mechanisms(capabilities: SandboxCapabilities) -> list[MechanismCheck]:
    """Check each mechanism on this machine as this user; for `hostler doctor`."""
    why = dict(capabilities.why)
    found = []
    mechanisms: tuple[Mechanism, ...] = ("bubblewrap", "landlock")
    for name in mechanisms:
        if name in capabilities.mechanisms:
            failure = await _try_with_files(MachineSandbox(name, capabilities))
            found.append(MechanismCheck(name, failure is None, failure or _description(name, capabilities)))
        else:
            found.append(MechanismCheck(name, False, f"not here: {why.get(name, capabilities.reason())}"))
    return found


async def _try_with_files(sandbox: MachineSandbox) -> str | None:
    """Run a trial with a secret file next to a workspace; return the failure, or None."""
    # not below /tmp: a sandbox may have its own writable /tmp
    with tempfile.TemporaryDirectory(prefix=".hostler-doctor-", dir=trial_folder()) as name:
        folder = Path(name)
        secret, own = folder / "secret", folder / "own"
        secret.write_text("")
        own.mkdir()
        files = {"files": ("a", str(secret)), "workspace": ("a", str(own / "file"))}
        return await _trial(sandbox, own, files, ["workspace"])


async def _trial(
    sandbox: MachineSandbox, cwd: Path, files: dict[str, tuple[str, str]], expected: list[str]
) -> str | None:
    """Run a program that tries to break out. Return what it reached unexpectedly or why it failed, or
    None."""
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
    reached = outcome.stdout.decode().split()
    if outcome.status.code != 0:
        words = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        why = f": {_line(words[-1])}" if words else ""
        return f"it was found, but a program ended in it: {outcome.status}{why}"
    if reached != expected:
        return (
            f"it does not hold: a program in it reached {', '.join(reached) or 'not even its own workspace'}"
        )
    return None


def _line(text: str) -> str:
    return " ".join(text.split())[:MAX_REASON_CHARS]


def foreign_file() -> str:
    """Return a file of this machine that no sandbox shows."""
    return next((path for path in FOREIGN_FILES if os.access(path, os.R_OK)), FOREIGN_FILES[0])


def trial_folder() -> str | None:
    """Return a folder outside of /tmp for the files of a trial; None: there is none, use the default one."""
    return next((place for place in ("/var/tmp", str(Path.home())) if Path(place).is_dir()), None)  # noqa: S108


def _description(mechanism: Mechanism, capabilities: SandboxCapabilities) -> str:
    user = (
        "under a user of its own for each sandbox"
        if capabilities.has_own_users(mechanism)
        else "as this user"
    )
    if mechanism == "bubblewrap":
        return (
            f"holds files, network (by name through a proxy), processes, memory and disk, {user}; the filter "
            "of system calls holds for its pid 1, too; Unix sockets and browsers work inside; "
            "nothing outlives it"
        )
    signals = "" if capabilities.landlock >= SIGNALS_LANDLOCK else "; signals are refused altogether"
    return (
        f"version {capabilities.landlock} holds files, memory and disk, {user}, and cuts off all networks; "
        "Unix sockets are refused except connected pairs, so browsers do not start; which files and "
        f"processes there are stays visible, and /proc is closed{signals}"
    )
