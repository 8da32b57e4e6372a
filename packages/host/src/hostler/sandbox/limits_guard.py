"""The shim's part of a sandbox: gives the order to what confines, answers refused calls, watches limits.

Runs in the shim's process, with nothing but the standard library and the files beside it.
"""

from __future__ import annotations

import _thread
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

from hostler.sandbox.disk_limits import Folders
from hostler.sandbox.path_visibility import shown
from hostler.sandbox.refusals import Refusal, describe
from hostler.sandbox.syscall_audit import SyscallAudit
from hostler.sandbox.usage import Measured, measure_processes, session_of

NOTIF_RECEIVE, NOTIF_SEND, NOTIF_VALID, NOTIF_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
GOES_ON, SAME_PROCESSOR = 1, 1
"""An answer: the kernel does the call. A listener: who asks and who answers take turns on one processor."""
NOTIF_BYTES = 80
_ANSWER = struct.Struct("=QqiI")
_QUESTION = struct.Struct("=QIIiIQ6Q")
_NUMBER = struct.Struct("=Q")
EPERM = 1
MOST_TOLD = 200
"""Different things that are told of one sandbox."""
FAR_SECONDS, NEAR_SECONDS = 0.2, 0.03
"""From one look at the limits to the next, while less than half of each is used, and from there on."""
TELL_SECONDS = 2.0
"""At the end, for what was heard and is not told yet."""
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
        self._telling = _thread.allocate_lock()
        self._shim = 0
        self._session = 0
        self._at_limit = 0
        self._next_look = 0.0
        self._folders = Folders(self.watch, self._full)
        self._hearing = SyscallAudit(order["asked"], self._tell, self._grow, self._is_own)

    # -- starting ---------------------------------------------------------------------------------

    def in_child(self, unshare_users: Callable[[], None]) -> list[str]:
        """In the forked child: what to execute; only the socket of what confines goes along."""
        if self.order["own_users"]:
            # the shim, which may, makes every user the same inside as outside
            unshare_users()
            self.theirs.sendall(b"u")
            if self.theirs.recv(1) != b"m":
                os._exit(127)
        os.set_inheritable(self.theirs.fileno(), True)
        return [*self.order["command"], str(self.theirs.fileno())]

    def forked(self, child: int) -> None:
        """In the shim, while the child waits for its users."""
        self.theirs.close()
        self._session = self._hearing.number_inside(child)
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
        said, asking = b"", -1
        while True:
            ready = dict(poller.poll())
            if asking in ready:  # to execute the command is the first that is asked about
                if ready[asking] & select.POLLIN:
                    self.answer()
                else:
                    poller.unregister(asking)  # nobody is left who could ask
                continue
            if self._ours.fileno() not in ready:
                return ""
            part = self._receive()
            if not part:
                break
            said += part
            if self.listener >= 0 and asking < 0:
                asking = self.listener
                poller.register(asking, select.POLLIN)
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
                with suppress(OSError):  # a kernel before 6.6 wakes who asked wherever there is room
                    fcntl.ioctl(fd, NOTIF_FLAGS, SAME_PROCESSOR)
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
        """Answer a call that the filter asks about: let it go on, or say no and tell."""
        buffer = bytearray(NOTIF_BYTES)
        try:
            fcntl.ioctl(self.listener, NOTIF_RECEIVE, buffer)
        except OSError:  # who asked is gone
            return
        number, pid, _, call, _, _, *arguments = _QUESTION.unpack(buffer)
        hearing = self._hearing
        if call in hearing.calls:
            hearing.see_by(pid)
            hearing.hear(pid, call, arguments, lambda: self._is_asking(number))
            if self.reached is None:  # else it waits until it is killed
                self._send(_ANSWER.pack(number, 0, 0, GOES_ON))
            return
        self._send(_ANSWER.pack(number, 0, -EPERM, 0))
        refusal: Refusal = describe(call, arguments)
        self._tell("refused", refusal.what, refusal.text)

    def _send(self, answer: bytes) -> None:
        with suppress(OSError):
            fcntl.ioctl(self.listener, NOTIF_SEND, answer)

    def _is_asking(self, number: int) -> bool:
        try:
            fcntl.ioctl(self.listener, NOTIF_VALID, _NUMBER.pack(number))
        except OSError:
            return False
        return True

    def _is_own(self, pid: int) -> bool:
        return pid in measure_processes(self._shim, 0).pids

    def look(self, shim: int) -> float:
        """Look at the limits where it is time; seconds until it is again."""
        now = time.monotonic()
        if now >= self._next_look:
            self._shim = shim
            near = self._look_at_processes(measure_processes(shim, self.order["own_processes"]))
            self._next_look = now + (NEAR_SECONDS if near else FAR_SECONDS)
            self._hearing.turn()
        if self.reached is None and now >= self._folders.next:
            self._reach(self._folders.look())
        return max(0.0, min(self._next_look, self._folders.next) - time.monotonic())

    def tell_left(self, shim: int) -> None:
        """Tell of processes that are about to be killed although they left the session of the command."""
        pids = measure_processes(shim, self.order["own_processes"]).pids
        left = sum(session_of(pid) not in (0, self._session) for pid in pids)
        if left:
            self._tell("refused", "left", f"processes that left its session: {left}; they are killed with it")

    def finish(self) -> None:
        """Tell the rest of what was heard; nothing runs any more."""
        self._hearing.finish(TELL_SECONDS)

    def _look_at_processes(self, found: Measured) -> bool:
        most, most_memory = self.watch["processes"], self.watch["memory"]
        # the kernel lets no more than the limit come to life: reached means that more was tried, or soon is
        self._at_limit = self._at_limit + 1 if found.processes >= most else 0
        if self._at_limit > 1:
            self._reach(("processes", f"{found.processes} processes and threads; {most} are allowed"))
        elif found.memory > most_memory and (exact := found.exact_memory()) > most_memory:
            self._reach(("memory", f"{_mib(exact)} of memory; {_mib(most_memory)} are allowed"))
        self._hearing.look(found)
        return bool(found.processes * 2 > most or found.memory * 2 > most_memory)

    def _full(self, path: str) -> None:
        most = _mib(self.watch["file_bytes"])
        self._tell("refused", "large file", f"the file {shown(path)} has {most}; no file may have more")

    def _grow(self) -> None:
        self._reach(self._folders.grow())

    def _reach(self, limit: tuple[str, str] | None) -> None:
        if limit is not None and self.reached is None:
            self.reached, text = limit
            self._tell("limit", self.reached, text)

    def _tell(self, kind: str, what: str, text: str) -> None:
        with self._telling:
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
