"""A host process for tests that kill hosts: starts wire plugins, says so in one line of JSON, and waits.

Arguments: data folder, containment, what the plugins do at their start, how many.
"""

import asyncio
import json
import sys
from pathlib import Path

from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor

WIRE = Path(__file__).with_name("wire_plugin.py")


async def main(data: Path, containment: str, start: str, count: int) -> None:
    supervisor = Supervisor(data, containment=containment)
    swept = supervisor.sweep_orphans()
    for index in range(count):
        folder = data / f"wire{index}"
        folder.mkdir(exist_ok=True)
        manifest = {
            "plugin": {"author": "test", "name": f"wire{index}"},
            "command": ["python", str(WIRE)],
        }
        (folder / "hostler.yaml").write_text(json.dumps(manifest))
        supervisor.add(Folder(folder, level="trusted"))
    await supervisor.start_all()
    status = supervisor.status()
    told = {"pids": [s.pid for s in status], "states": [s.state for s in status], "swept": swept}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the test is done with us
    await supervisor.close(1.0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
