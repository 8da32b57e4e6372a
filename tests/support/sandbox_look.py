"""Runs one Python program in a sandbox and writes what came of it as JSON.

`python sandbox_look.py MECHANISM FOLDER READABLE [unix-sockets] [plugin-limits] [without-groups] [LIMITS]`
reads the program from its input. FOLDER is the program's own, READABLE a folder that it may read, LIMITS is
JSON.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec.structs

from hostler.plugins.limits import PLUGIN_LIMITS
from hostler.sandbox.control_groups import NO_GROUPS
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import MIB, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_sandbox

LIMITS = SandboxLimits(memory_bytes=512 * MIB, processes=64, seconds=60.0, output_bytes=200_000)
AS_PLUGIN = msgspec.structs.replace(PLUGIN_LIMITS, seconds=60.0, output_bytes=200_000)


async def main(mechanism: str, folder: Path, readable: Path, *options: str) -> None:
    """Run it."""
    sandbox = await find_sandbox(None if mechanism == "any" else mechanism)  # type: ignore[arg-type]
    if "without-groups" in options:
        capabilities = msgspec.structs.replace(sandbox.capabilities, groups=NO_GROUPS)
        sandbox = MachineSandbox(sandbox.mechanism, capabilities)
    limits = AS_PLUGIN if "plugin-limits" in options else LIMITS
    for changes in options:
        if changes.startswith("{"):
            limits = msgspec.structs.replace(limits, **json.loads(changes))
    spec = SandboxSpec(
        "look",
        [sys.executable, "-I", "-S", "-c", sys.stdin.read()],
        folder,
        {"PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])},
        read_only=(readable,),
        writable=(folder,),
        unix_sockets="unix-sockets" in options,
        limits=limits,
    )
    made = await sandbox.run(spec)
    said: dict[str, Any] = {"output": made.stdout.decode(), "errors": made.stderr.decode("utf-8", "replace")}
    said |= {"mechanism": sandbox.mechanism, "status": made.status.code, "limit": made.limit_reached}
    said["told"] = [violation.text for violation in made.violations]
    groups = sandbox.capabilities.groups.groups
    said["groups"] = {} if groups is None else groups.versions
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:]))
