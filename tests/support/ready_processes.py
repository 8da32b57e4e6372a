"""`hostler` as real processes, forked from one of each test process that has imported it.

Hundreds of tests run the command, and most of what such a process does is to import and to try the machine's
sandbox. It is given what a process has of its own when it begins: working folder, environment, arguments and
three files. That commands import no more than they use is proven with interpreters of their own
(tests/host/cli/test_lazy_commands.py).
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import importlib
import os
import pkgutil
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from support import ready_plugins
from support.forking import (
    CAN_FORK,
    ForkedProcess,
    OwnSource,
    end_with,
    reader_of,
    take_on,
    take_orders,
    writer_of,
)

LEFT_OUT = ("__main__", "pytest_plugin", "testing", "litellm")
"""Parts of module names that no command needs."""
HELP = "typer.rich_utils"
"""What commands that are called wrongly, or asked for help, import besides: most of what these take."""


CommandProcess = ForkedProcess | subprocess.Popen[bytes]


class Source(OwnSource):
    """The process that commands are forked from; it ends with this one."""

    def __init__(self) -> None:
        super().__init__("ready_processes")

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None,
        files: Sequence[int],
        constants: Mapping[str, float] | None = None,
    ) -> ForkedProcess:
        """Start `hostler` with these arguments, these three files, and other values of module constants."""
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "cwd": str(cwd or Path.cwd()),
            "plugins": ready_plugins.address(),
            "constants": dict(constants or {}),
        }
        return self.fork(order, files)


@functools.cache
def source() -> Source:
    """The one of this test process."""
    return Source()


def start(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: BinaryIO,
    cwd: Path | None = None,
    constants: Mapping[str, float] | None = None,
) -> CommandProcess:
    """Start a command without input that writes to a log.

    `constants`: other values of module constants, by "module.NAME", which may only shorten waits: where
    processes cannot be forked, they keep their own.
    """
    if not CAN_FORK:
        return subprocess.Popen(
            [sys.executable, "-m", "hostler", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=cwd,
        )
    with Path(os.devnull).open("rb") as nothing:
        files = [nothing.fileno(), log.fileno(), log.fileno()]
        return source().start(arguments, environment, cwd, files, constants)


def run(
    arguments: Sequence[str], given: bytes, environment: Mapping[str, str], cwd: Path, seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a command to its end: exit status, output and errors."""
    if not CAN_FORK:
        command = [sys.executable, "-m", "hostler", *arguments]
        ran = subprocess.run(
            command, input=given, capture_output=True, env=environment, cwd=cwd, timeout=seconds, check=False
        )
        return ran.returncode, ran.stdout, ran.stderr
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given)
        stdin.seek(0)
        process = source().start(arguments, environment, cwd, [one.fileno() for one in (stdin, out, err)])
        try:
            status = process.wait(seconds)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


@dataclass
class PipedProcess:
    """A command with pipes as its input and output, as `asyncio.subprocess.Process` has it."""

    process: CommandProcess
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    @property
    def pid(self) -> int:
        """Of the command."""
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs."""
        return self.process.poll()

    async def wait(self) -> int:
        """Wait for the end."""
        return await asyncio.to_thread(self.process.wait)

    def kill(self) -> None:
        """End it by force."""
        self.process.kill()


async def start_piped(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: BinaryIO,
    cwd: Path,
    constants: Mapping[str, float] | None = None,
    *,
    line_bytes: int,
) -> PipedProcess | asyncio.subprocess.Process:
    """Start a command that is spoken to through pipes; `line_bytes`: the longest line that is read of it.

    `constants`: see `start`.
    """
    if not CAN_FORK:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hostler", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=line_bytes,
            cwd=cwd,
            env=environment,
        )
    (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
    try:
        process = source().start(
            arguments, environment, cwd, [theirs_in, theirs_out, log.fileno()], constants
        )
    finally:
        os.close(theirs_in)
        os.close(theirs_out)
    return PipedProcess(process, await writer_of(ours_in), await reader_of(ours_out, line_bytes))


# -- in the process that the others are forked from ---------------------------------------------------------


def serve_forks(orders: socket.socket) -> None:
    """Fork a process for each order, which goes on as `hostler`."""
    from hostler.cli.main import main

    _prepare()
    gc.collect()
    gc.freeze()
    order, files = take_orders(orders)
    _become(order, files)
    end_with(main)


def _prepare() -> None:
    """Import what commands need, look at the types of messages, try the sandbox: as each would by itself."""
    import hostler
    from hostler.domain.struct_types import learn_struct_types
    from hostler.sandbox.probe import find_capabilities

    for module in pkgutil.walk_packages(hostler.__path__, "hostler."):
        if not any(part in module.name for part in LEFT_OUT):
            importlib.import_module(module.name)
    importlib.import_module(HELP)
    learn_struct_types()
    asyncio.run(find_capabilities())


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Take on what a process has of its own when it begins."""
    take_on(order, files)
    sys.argv = ["hostler", *order["arguments"]]
    for name, value in order["constants"].items():
        module, _, constant = name.rpartition(".")
        assert hasattr(sys.modules[module], constant), name
        setattr(sys.modules[module], constant, value)
    if order["plugins"] is not None:
        ready_plugins.use(forked=True, address=order["plugins"])
    time.tzset()
    random.seed()
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
