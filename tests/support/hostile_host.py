"""A host whose one plugin is hostile: `python hostile_host.py MECHANISM FOLDER`.

Reads a JSON list of attempts (each with a `name`) from its input, has the plugin try one after the other, and
writes a JSON object: by name, what came of it; then what the plugin's log says, and what is promised.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from hostler.plugins.limits import ProcessLimits, StartLimits
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.sandbox.port import KIB, MIB, SandboxLimits
from hostler.sandbox.probe import find_sandbox
from hostler.sandbox.usage import measure_folders
from hostler_protocol.errors import PluginError
from support.plugin_runs import run

LIMITS = SandboxLimits(
    memory_bytes=160 * MIB,
    processes=40,
    open_files=128,
    file_bytes=2 * MIB,
    disk_bytes=8 * MIB,
    files=300,
    tmp_bytes=256 * KIB,
)
PROCESS_LIMITS = ProcessLimits(log_bytes_per_second=16 * KIB)
TOLD = ("limit", "refused", "network", "crashed")
SECONDS = 60.0
"""Bound of one attempt; it only has to end what hangs."""


async def attempt(supervisor: Supervisor, key: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Have it try one thing; what it said, or how it ended."""
    connection = await supervisor.connection(key)
    try:
        async with asyncio.timeout(SECONDS):
            made = await run(connection, json.dumps(wanted))
    except PluginError as error:
        return {"ended": error.message}
    if made.texts:
        answer: dict[str, Any] = json.loads(made.texts[-1])
        return answer
    return {"ended": str(made.over.result())}


async def filled(workspace: Path) -> int:
    """Bytes in the workspace of a process that was killed just now, once nothing of it is left."""
    held, before = -1, -2
    while held != before:
        before = held
        await asyncio.sleep(0.1)
        held, _ = measure_folders([str(workspace)], 1 << 60, 1 << 60)
    return held


async def main(mechanism: str, folder: Path) -> None:
    """Try everything."""
    found = await find_sandbox(mechanism)  # type: ignore[arg-type]
    told: list[tuple[str, str]] = []

    async def sandbox() -> Any:
        return found

    supervisor = Supervisor(
        folder / "data",
        sandbox=sandbox,
        notice=lambda kind, _, text: told.append((kind, text)),
        start_limits=StartLimits(stable_seconds=0.0),
        process_limits=PROCESS_LIMITS,
    )
    key = supervisor.add(Folder(folder / "hostile", limits=LIMITS))
    workspace = folder / "data" / "plugins" / "workspaces" / "test" / "hostile"
    largest = 0
    results: dict[str, Any] = {}
    for wanted in json.load(sys.stdin):
        name = wanted.pop("name")
        before = len(told)
        try:
            results[name] = await attempt(supervisor, key, wanted)
        except TimeoutError:
            results[name] = {"error": "nothing came of it in time"}
        results[name]["told"] = [one for one in told[before:] if one[0] in TOLD]
        if "ended" in results[name]:
            if name == "disk":
                largest = await filled(workspace)
            await supervisor.restart(key)
    promised = supervisor.status()[0].containment
    await supervisor.close(0)
    log = (folder / "data" / "logs" / "plugins" / "test" / "hostile.log").read_text("utf-8", "replace")
    notes = [line for line in log.splitlines() if line.startswith("-- hostler")]
    sys.stdout.write(
        json.dumps({"results": results, "notes": notes, "promised": promised, "largest": largest})
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
