"""The keeper's part of a sandbox: gives the order to what confines, answers refused calls, watches limits.

Runs in the keeper's process, with nothing but the standard library and the files beside it.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hostler.sandbox.measure import Measured, measure_folders, measure_processes
from hostler.sandbox.refusals import Refusal, describe

NOTIF_RECEIVE, NOTIF_SEND = 0xC0502100, 0xC0182101
NOTIF_BYTES = 80
_ANSWER = struct.Struct("=QqiI")
_QUESTION = struct.Struct("=QIIiIQ6Q")
EPERM = 1
MOST_TOLD = 200
"""Different things that are told of one sandbox."""
FAR_SECONDS, NEAR_SECONDS = 0.2, 0.03
"""From one look at the limits to the next, while less than half of each is used, and from there on."""
WALK_SHARE = 20
"""A walk through the folders is followed by a rest of so many times its length."""
SHELL_SIGNAL = 128
"""An exit status above it stands for a signal, where another program passes it on."""


class Guard:
    """One sandbox. `reached` is the name of the limit for which everything in it has to be killed."""

    def __init__(
        self, order: dict[str, Any], say: Callable[[dict[str, Any]], None], doors: int | None
    ) -> None:
        self.order = order
        self.watch: dict[str, Any] = order["watch"]
        self.reached: str | None = None
        self.listener = -1
        self._say = say
        self._doors = doors
        self._told: set[str] = set()
        self._ours, self.theirs = socket.socketpair()
        self._at_limit = 0
        self._next_look = 0.0
        self._next_walk = 0.0

    # -- starting ---------------------------------------------------------------------------------

    def in_child(self, unshare_users: Callable[[], None]) -> list[str]:
        """In the forked child: what to execute; only the socket of what confines goes along."""
        if self.order["own_users"]:
            # the keeper, which may, makes every user the same inside as outside
            unshare_users()
            self.theirs.sendall(b"u")
            if self.theirs.recv(1) != b"m":
                os._exit(127)
        os.set_inheritable(self.theirs.fileno(), True)
        return [*self.order["command"], str(self.theirs.fileno())]

    def forked(self, child: int) -> None:
        """In the keeper, while the child waits for its users."""
        self.theirs.close()
        if self.order["own_users"] and self._ours.recv(1) == b"u":
            with suppress(OSError):
                _map_users(child)
                self._ours.sendall(b"m")
                return
            os.kill(child, signal.SIGKILL)

    def launched(self, others: list[int]) -> str | None:
        """Wait until the command runs; why it does not, if so. Empty where `others` became readable first."""
        data = marshal.dumps(self.order["confine"])
        with suppress(OSError):
            self._ours.sendall(len(data).to_bytes(4, "big") + data)
        poller = select.poll()
        for fd in (self._ours.fileno(), *others):
            poller.register(fd, select.POLLIN)
        said = b""
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if self._ours.fileno() not in ready:
                return ""
            part = self._receive()
            if not part:
                break
            said += part
        lines = said.decode("utf-8", "replace").splitlines()
        errors = [line.removeprefix("error ") for line in lines if line.startswith("error ")]
        if errors:
            return errors[0]
        return None if "ready" in lines else "the sandbox could not be set up"

    def _receive(self) -> bytes:
        data, fds, _, _ = socket.recv_fds(self._ours, 4096, 4)
        for fd in fds:
            os.set_inheritable(fd, False)
            if data.startswith(b"listener"):  # a descriptor comes with the first line that is read
                self.listener = fd
            else:
                self._pass_door(fd)
        return data

    def _pass_door(self, fd: int) -> None:
        if self._doors is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(self._doors)) as host:
                socket.send_fds(host, [b"d"], [fd])
        os.close(fd)

    # -- watching ---------------------------------------------------------------------------------

    def answer(self) -> None:
        """Say no to a call that the filter asks about, and tell."""
        buffer = bytearray(NOTIF_BYTES)
        try:
            fcntl.ioctl(self.listener, NOTIF_RECEIVE, buffer)
        except OSError:  # who asked is gone
            return
        number, _, _, call, _, _, *arguments = _QUESTION.unpack(buffer)
        with suppress(OSError):
            fcntl.ioctl(self.listener, NOTIF_SEND, _ANSWER.pack(number, 0, -EPERM, 0))
        refusal: Refusal = describe(call, arguments)
        self._tell("refused", refusal.what, refusal.text)

    def look(self, keeper: int) -> float:
        """Look at the limits where it is time; seconds until it is again."""
        now = time.monotonic()
        if now >= self._next_look:
            near = self._look_at_processes(measure_processes(keeper, self.order["own_processes"]))
            self._next_look = now + (NEAR_SECONDS if near else FAR_SECONDS)
        if self.reached is None and now >= self._next_walk and self.watch["folders"]:
            near = self._look_at_folders()
            cost = (time.monotonic() - now) * WALK_SHARE
            self._next_walk = now + max(NEAR_SECONDS if near else FAR_SECONDS, cost)
        return max(0.0, min(self._next_look, self._next_walk or self._next_look) - time.monotonic())

    def _look_at_processes(self, found: Measured) -> bool:
        most, most_memory = self.watch["processes"], self.watch["memory"]
        # the kernel lets no more than the limit come to life: reached means that more was tried, or soon is
        self._at_limit = self._at_limit + 1 if found.processes >= most else 0
        if self._at_limit > 1:
            self._reach("processes", f"{found.processes} processes and threads; {most} are allowed")
        elif found.memory > most_memory and (exact := found.exact_memory()) > most_memory:
            self._reach("memory", f"{_mib(exact)} of memory; {_mib(most_memory)} are allowed")
        return bool(found.processes * 2 > most or found.memory * 2 > most_memory)

    def _look_at_folders(self) -> bool:
        most_bytes, most_files = self.watch["disk"], self.watch["files"]
        size, count = measure_folders(self.watch["folders"], most_bytes, most_files)
        if size > most_bytes:
            self._reach("disk", f"{_mib(size)} in its folders; {_mib(most_bytes)} are allowed")
        elif count > most_files:
            self._reach("files", f"over {most_files} files and folders; {most_files} are allowed")
        return bool(size * 2 > most_bytes or count * 2 > most_files)

    def _reach(self, name: str, text: str) -> None:
        self.reached = name
        self._tell("limit", name, text)

    def _tell(self, kind: str, what: str, text: str) -> None:
        if what not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(what)
            self._say({"told": {"kind": kind, "what": what, "text": text}})

    def status_of(self, status: int) -> int:
        """The wait status of the command itself: bubblewrap passes a signal on as a shell does."""
        if self.order["passes_signals_on"] and os.WIFEXITED(status):
            number = os.WEXITSTATUS(status) - SHELL_SIGNAL
            if number in set(signal.Signals):
                return number
        return status


def _map_users(child: int) -> None:
    """Every user is the same in the child's namespace as outside."""
    for kind in ("uid_map", "gid_map"):
        with open(f"/proc/self/{kind}") as own:  # noqa: PTH123 - pathlib would double the start-up time
            ranges = [line.split() for line in own]
        text = "".join(f"{first} {first} {count}\n" for first, _, count in ranges)
        with open(f"/proc/{child}/{kind}", "w") as file:  # noqa: PTH123
            file.write(text)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
