"""A runner that does all it can for so many seconds: it uses up what its limits leave it, and then more.

Its input is JSON: `seconds`, and `over`, by which way it crosses a limit in the end (null: by none).
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import mmap
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from hostler_sdk import RunContext, Runner, delta, message

MIB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)


def spin(_: float) -> None:
    """Use a processor."""
    while True:
        pass


def fork_much(_: float) -> None:
    """Start processes that start processes, and end."""
    while True:
        with suppress(OSError):
            pid = os.fork()
            if pid == 0:
                with suppress(OSError):
                    os.setsid()
                os._exit(0)
            os.waitpid(pid, 0)


def remember(_: float) -> None:
    """Take memory and give it back, private, shared, and shared that it does not map."""
    while True:
        held = bytearray(b"x") * (48 * MIB)
        with mmap.mmap(-1, 16 * MIB) as shared:
            shared.write(b"x" * (16 * MIB))
            with suppress(OSError):
                shared.madvise(mmap.MADV_DONTNEED)
        del held


def fill_disk(_: float) -> None:
    """Write files, with names and without, and remove them."""
    home = Path.home()
    while True:
        for number in range(6):
            with (home / f"file{number}").open("wb") as file, suppress(OSError):
                os.unlink(file.name) if number % 2 else None
                file.write(b"x" * (2 * MIB))
        for path in home.glob("file*"):
            path.unlink(missing_ok=True)


def many_files(_: float) -> None:
    """Make and remove files, folders and links."""
    home = Path.home() / "many"
    while True:
        home.mkdir(exist_ok=True)
        for number in range(200):
            (home / f"{number}").touch()
        for path in home.iterdir():
            path.unlink()
        home.rmdir()


def talk(_: float) -> None:
    """Fill the buffers of sockets and pipes, and send descriptors around."""
    while True:
        pairs = []
        for _ in range(60):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            with suppress(OSError):
                while True:
                    ours.send(b"x" * 4096)
            pairs.append((ours, theirs))
        ours, theirs = socket.socketpair()
        with suppress(OSError):
            socket.send_fds(ours, [b"x"], [pairs[0][0].fileno()])
        for one in (*pairs, (ours, theirs)):
            one[0].close()
            one[1].close()


def name_files(_: float) -> None:
    """Name files that it may not see, as fast as it can: the shim has to look at each."""
    number = 0
    while True:
        number += 1
        for path in ("/etc/shadow", f"/root/{number}", f"/proc/{number % 4096}/mem", "/proc/1/environ"):
            with suppress(OSError):
                os.close(os.open(path, os.O_RDONLY))


def signal_all(_: float) -> None:
    """Signal everything in sight but its own processes, which would end the wreck."""
    parent = os.getppid()
    while True:
        for pid in (1, parent):
            for number in (signal.SIGURG, signal.SIGCONT, 0):
                with suppress(OSError):
                    os.kill(pid, number)
        for pid in range(2, 4000, 97):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, 0)
        with suppress(OSError):
            LIBC.ptrace(16, 1, 0, 0)


def log(_: float) -> None:
    """Write errors."""
    while True:
        os.write(2, b"x" * 4096 + b"\n")


WAYS = (spin, spin, spin, spin, fork_much, remember, fill_disk, many_files, talk, name_files, signal_all, log)


def too_much_memory() -> None:
    """Over the limit of memory."""
    kept = []
    while True:
        kept.append(bytearray(b"x") * (32 * MIB))


def too_much_disk() -> None:
    """Over the limit of disk, by files without a name."""
    kept = []
    while True:
        kept.append((Path.home() / "gone").open("wb"))
        os.unlink(kept[-1].name)
        kept[-1].write(b"x" * (4 * MIB))
        kept[-1].flush()


def too_many_processes() -> None:
    """Over the limit of processes."""
    while True:
        with suppress(OSError):
            os.fork()


OVER = {"memory": too_much_memory, "disk": too_much_disk, "processes": too_many_processes}


def child(work, *arguments) -> int:
    """A process that does this until it is killed."""
    pid = os.fork()
    if pid == 0:
        os.close(0)
        try:
            work(*arguments)
        finally:
            os._exit(1)
    return pid


class Wrecker(Runner):
    """Wrecks."""

    capabilities = {"streaming"}

    async def run(self, ctx: RunContext):
        plan = json.loads(ctx.input.text)
        pids = [child(way, plan["seconds"]) for way in WAYS]
        calls = [asyncio.create_task(self.call(ctx, number)) for number in range(16)]
        end = time.monotonic() + plan["seconds"]
        number = 0
        while time.monotonic() < end:
            number += 1
            yield delta(f"{number} " * 20)
            if number % 50 == 0:
                await asyncio.sleep(0)
        for one in calls:
            one.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if plan["over"] is not None:
            child(OVER[plan["over"]])
            await asyncio.sleep(60)
        yield message(f"{number} results on {sys.platform}")

    async def call(self, ctx: RunContext, number: int) -> None:
        """Call the host without end."""
        while True:
            with suppress(Exception):
                await ctx.states.set("conversation", f"wreck.{number}", "x" * 1000)
                await ctx.states.get("conversation", f"nothing.{number}")
            await asyncio.sleep(0)
