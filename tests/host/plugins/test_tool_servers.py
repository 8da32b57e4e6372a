"""Sandboxes of MCP servers: Unix sockets of their own, and never those of other programs."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.domain.mcp_entry import McpEntry
from hostler.plugins.tool_servers import McpProcesses
from hostler.sandbox.probe import find_capabilities

MECHANISMS = asyncio.run(find_capabilities()).mechanisms if sys.platform == "linux" else ()
pytestmark = pytest.mark.skipif(
    "bubblewrap" not in MECHANISMS, reason="with Landlock all sockets are refused"
)
BOUND_SECONDS = 60.0
SERVER = """
import os, socket, sys
def reach(address):
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(address)
        return "reached"
    except OSError as error:
        return type(error).__name__
try:
    own = socket.socket(socket.AF_UNIX)
    own.bind("own")
    own.listen()
    print(reach("own"), flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
print(reach(sys.argv[1]), flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside of /tmp, since a sandbox has a /tmp of its own; short, as addresses must be."""
    made = Path(tempfile.mkdtemp(prefix="t-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [((), ["reached", "FileNotFoundError"])]
    + [((key,), ["PermissionError", "PermissionError"]) for key in ("read", "write", "cwd")],
)
async def test_a_server_reaches_no_socket_in_a_folder_that_its_entry_names(
    names: tuple[str, ...], expected: list[str], folder: Path
) -> None:
    """An agent of keys listens in a home folder, say, which the entry of a server lists to be read."""
    home = folder / "home"
    home.mkdir()
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(home / "agent"))
        (home / "agent").chmod(0o777)
        agent.listen()
        agent.setblocking(False)
        named = {name: str(home) if name == "cwd" else [str(home)] for name in names}
        command = [os.path.realpath(sys.executable), "-I", "-S", "-c", SERVER, str(home / "agent")]
        entry = McpEntry(name="s", command=command, **named)  # type: ignore[arg-type]
        async with asyncio.timeout(BOUND_SECONDS):
            server = await McpProcesses(folder / "data").start(entry, {})
            said = b""
            while part := await server.read():
                said += part
            await server.close(BOUND_SECONDS)
        assert said.decode().split() == expected
        with pytest.raises(BlockingIOError):
            agent.accept()
