"""Runs one Python program in a sandbox and writes what came of it as JSON.

`python sandbox_look.py MECHANISM FOLDER READABLE` reads the program from its input. FOLDER is the program's
own, READABLE a folder that it may read.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from hostler.sandbox.port import MIB, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_sandbox

LIMITS = SandboxLimits(memory_bytes=512 * MIB, processes=64, seconds=60.0, output_bytes=200_000)


async def main(mechanism: str, folder: Path, readable: Path) -> None:
    """Run it."""
    sandbox = await find_sandbox(None if mechanism == "any" else mechanism)  # type: ignore[arg-type]
    spec = SandboxSpec(
        "look",
        [sys.executable, "-I", "-S", "-c", sys.stdin.read()],
        folder,
        {"PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])},
        read_only=(readable,),
        writable=(folder,),
        limits=LIMITS,
    )
    made = await sandbox.run(spec)
    said = {"output": made.stdout.decode(), "errors": made.stderr.decode("utf-8", "replace")}
    sys.stdout.write(json.dumps({**said, "mechanism": sandbox.mechanism, "status": made.status.code}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
