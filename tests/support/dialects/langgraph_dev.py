"""The maker's own server (`langgraph dev`), to compare with: installed once into this machine's cache."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from support.cached_installs import alone, missing
from support.loopback import NO_CERTIFICATES

GRAPH = Path(__file__).with_name("langgraph_graph.py")
PACKAGES = ("langgraph-cli[inmem]==0.4.40", "langgraph-api==0.16.7", "langgraph==1.2.24")
INSTALL_SECONDS = 300.0
START_SECONDS = 90.0


@functools.cache
def _program() -> Path | str:
    with alone("langgraph-server", "dev") as cache:
        folder = cache / "dev"
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            commands = (
                ["uv", "venv", "-q", "--python", sys.executable, str(folder)],
                ["uv", "pip", "install", "-q", "--python", str(folder / "bin" / "python"), *PACKAGES],
            )
            for command in commands:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
                )
                if done.returncode:
                    return f"langgraph dev cannot be installed: {done.stderr[-500:]}"
            (folder / "installed").touch()
        return folder / "bin" / "langgraph"


@contextlib.asynccontextmanager
async def langgraph_dev(folder: Path) -> AsyncIterator[str]:
    """Start the server over a folder; its address. Skips the test where it cannot be had."""
    program = _program()
    if isinstance(program, str):
        missing(program)
    assert isinstance(program, Path)
    (folder / "graph.py").write_text(GRAPH.read_text())
    graphs = {"graphs": {"player": "./graph.py:graph"}, "dependencies": ["."]}
    (folder / "langgraph.json").write_text(json.dumps(graphs))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    with (folder / "log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(str(program), "dev", "--no-browser", "--no-reload", "--port", str(port)),
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            async with asyncio.timeout(START_SECONDS), httpx.AsyncClient(verify=NO_CERTIFICATES) as client:
                while True:
                    assert process.returncode is None, (folder / "log").read_text()[-2000:]
                    with contextlib.suppress(httpx.HTTPError):
                        if (await client.get(f"{url}/ok")).is_success:
                            break
                    await asyncio.sleep(0.2)
            yield url
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
