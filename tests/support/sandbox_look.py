"""Runs Python programs in sandboxes and writes what came of them as JSON.

`python sandbox_look.py MECHANISM FOLDER READABLE [unix-sockets] [plugin-limits] [without-groups] [LIMITS]`
reads the programs from its input, as a list in JSON, and runs one after the other, each in a sandbox of its
own. FOLDER is the program's own; each of several has one in it. READABLE is a folder that they may read,
LIMITS is JSON.
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
from hostler.sandbox.port import MIB, CommandResult, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_sandbox

LIMITS = SandboxLimits(memory_bytes=512 * MIB, processes=64, seconds=60.0, output_bytes=200_000)
AS_PLUGIN = msgspec.structs.replace(PLUGIN_LIMITS, seconds=60.0, output_bytes=200_000)
PATH = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])


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
    ended, programs = [], json.load(sys.stdin)
    for number, program in enumerate(programs):
        own = folder / str(number) if len(programs) > 1 else folder
        own.mkdir(exist_ok=True)
        spec = SandboxSpec(
            "look",
            [sys.executable, "-I", "-S", "-c", program],
            own,
            {"PATH": PATH},
            read_only=(readable,),
            writable=(own,),
            unix_sockets="unix-sockets" in options,
            limits=limits,
        )
        ended.append(_told(sandbox, await sandbox.run(spec)))
    sys.stdout.write(json.dumps(ended))


def _told(sandbox: MachineSandbox, made: CommandResult) -> dict[str, Any]:
    said: dict[str, Any] = {"output": made.stdout.decode(), "errors": made.stderr.decode("utf-8", "replace")}
    said |= {"mechanism": sandbox.mechanism, "status": made.status.code, "limit": made.limit_reached}
    said["told"] = [violation.text for violation in made.violations]
    groups = sandbox.capabilities.groups.groups
    return said | {"groups": {} if groups is None else groups.versions}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:]))
