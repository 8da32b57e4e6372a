"""What each mechanism holds on this machine, for `hostler doctor`: found out by trying."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from hostler.sandbox.ground import SIGNALS_LANDLOCK, Ground
from hostler.sandbox.port import MIB, Mechanism, SandboxLimits, SandboxSpec
from hostler.sandbox.sandboxes import MachineSandbox
from hostler_protocol.errors import UnavailableError

TRIAL_SECONDS = 30.0
TRIAL = """
import os, socket, sys
tried = {}
for name, path in (("files", sys.argv[1]), ("workspace", sys.argv[2])):
    try:
        open(path, "a").close()
        tried[name] = True
    except OSError:
        tried[name] = False
try:
    socket.socket().close()
    tried["network"] = True
except OSError:
    tried["network"] = False
print(*(name for name, worked in tried.items() if worked))
"""


class Held(NamedTuple):
    """One mechanism here. `works`: it was tried, and held."""

    mechanism: Mechanism
    works: bool
    text: str


async def what_holds(ground: Ground) -> list[Held]:
    """Each mechanism: whether it holds on this machine as this user, and what."""
    why = dict(ground.why)
    found = []
    for mechanism in ("bubblewrap", "landlock"):
        name: Mechanism = "bubblewrap" if mechanism == "bubblewrap" else "landlock"
        if name in ground.mechanisms:
            wrong = await _try(MachineSandbox(name, ground))
            found.append(Held(name, wrong is None, wrong or _promise(name, ground)))
        else:
            found.append(Held(name, False, f"not here: {why.get(name, ground.reason())}"))
    return found


async def _try(sandbox: MachineSandbox) -> str | None:
    """Run a small program that reaches out; what it reached, or why it did not run."""
    # not below /tmp: a sandbox may write into a /tmp of its own
    with tempfile.TemporaryDirectory(prefix=".hostler-doctor-", dir=_place()) as name:
        folder = Path(name)
        secret, own = folder / "secret", folder / "own"
        secret.write_text("")
        own.mkdir()
        argv = [sys.executable, "-I", "-S", "-c", TRIAL, str(secret), str(own / "file")]
        limits = SandboxLimits(memory_bytes=256 * MIB, seconds=TRIAL_SECONDS, output_bytes=4096)
        spec = SandboxSpec("doctor", argv, own, {}, writable=(own,), limits=limits)
        try:
            outcome = await sandbox.run(spec)
        except UnavailableError as error:
            return f"it was found, but does not start: {error.message}"
    said = outcome.stdout.decode().split()
    if outcome.status.code != 0:
        words = outcome.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"it was found, but a program ended in it: {outcome.status}{': ' + words[-1] if words else ''}"
    if said != ["workspace"]:
        return f"it does not hold: a program in it reached {', '.join(said) or 'not even its own workspace'}"
    return None


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
