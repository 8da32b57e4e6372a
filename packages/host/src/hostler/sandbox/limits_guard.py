"""The shim's part of a sandbox: start confine.py with its spec, answer refused calls, watch limits.

Runs in the shim, with only the standard library and modules of this package.
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

from hostler.sandbox.disk_limits import DiskLimits
from hostler.sandbox.group_watch import GroupWatch
from hostler.sandbox.memory_looks import MemoryLooks
from hostler.sandbox.path_visibility import shown
from hostler.sandbox.refusals import Refusal, describe
from hostler.sandbox.report_budget import ReportBudget, group_of
from hostler.sandbox.socket_memory import NETLINK_SOCK_DIAG
from hostler.sandbox.supplied_files import Supplied
from hostler.sandbox.syscall_audit import AuditNotes, SyscallAudit
from hostler.sandbox.usage import ProcessUsage, format_mib, measure_processes, session_of

NOTIF_RECEIVE, NOTIF_SEND, NOTIF_VALID, NOTIF_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
NOTIF_ADDFD, ADDFD_SEND = 0x40182103, 2
CONTINUE, SYNC_WAKE_UP = 1, 1
"""SECCOMP_USER_NOTIF_FLAG_CONTINUE: the kernel executes the call. SYNC_WAKE_UP: caller and listener share a
CPU."""
NOTIF_BYTES = 80
_ANSWER = struct.Struct("=QqiI")
_QUESTION = struct.Struct("=QIIiIQ6Q")
_NUMBER = struct.Struct("=Q")
_GIVEN = struct.Struct("=QIIII")
EPERM = 1
INTERVAL_SECONDS, NEAR_LIMIT_SECONDS = 0.2, 0.03
"""Time between checks: below half of each limit, and from half of a limit on."""
FINISH_SECONDS = 2.0
"""At the end, for violations not yet reported."""
SHELL_SIGNAL = 128
"""Shells and bubblewrap report a child's signal as an exit status of 128 plus its number."""


class LimitsGuard:
    """Guard of one sandbox. Once `limit_reached` names a limit, everything in the sandbox must be killed."""

    def __init__(
        self, spec: dict[str, Any], send_message: Callable[[dict[str, Any]], None], proxy_sockets: int | None
    ) -> None:
        self.spec = spec
        self.watch: dict[str, Any] = spec["watch"]
        self.limit_reached: str | None = None
        self.listener = -1
        self.exit_status: int | None = None
        """The wait status of the command, once the first process of the sandbox has reported it."""
        self._status_socket = -1
        self.groups = GroupWatch(spec["groups"])
        self._send_message = send_message
        self._proxy_sockets = proxy_sockets
        self._budget = ReportBudget()
        self._ours, self.theirs = socket.socketpair()
        self._reporting = _thread.allocate_lock()
        self._root = os.getpid()
        self._session = 0
        self._at_limit = 0
        self._after_start = b""
        self._next_check = 0.0
        self._memory = MemoryLooks()
        self._unreadable: frozenset[int] = frozenset()
        in_flight = self._memory.sockets.in_flight
        self._disk = DiskLimits(self.watch, self._on_file_limit, self._pids, in_flight, self._on_quota)
        self._traces = bool(spec["audit"]["calls"])
        if spec["mode"] is None and not self.groups.limits("memory"):
            with suppress(OSError):  # its sockets are in this network
                diag = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
                self._memory.sockets.adopt(diag, all_own=False)
        notes = AuditNotes(self._before_growth, self._disk.note_removal, self._before_shared)
        self._audit = SyscallAudit(spec["audit"], self._report, notes, self._is_own)

    # -- starting ---------------------------------------------------------------------------------

    def open_folders(self) -> None:
        """Open the writable folders, before the child is forked. Raises OSError."""
        self._disk.open_folders()
        if (shared := self.spec["shared_in"]) is not None and (workspace := self._disk.workspace) >= 0:
            self._audit.supplied.share_in(workspace, shared, self.spec["confine"]["uid"])

    def child_command(self, unshare_users: Callable[[], None]) -> list[str]:
        """Run in the forked child, which joins its groups. Return the command to execute; it inherits only
        the socket to confine.py. Raises OSError."""
        self.groups.join_inside()
        os.nice(self.spec["nice"])
        if self.spec["own_users"]:
            # the shim, which has the capabilities, maps every user to itself
            unshare_users()
            self.theirs.sendall(b"u")
            if self.theirs.recv(1) != b"m":
                os._exit(127)
        os.set_inheritable(self.theirs.fileno(), True)
        contents = {name: str(_descriptor_of(text)) for name, text in self.spec["contents"].items()}
        return [*(contents.get(one, one) for one in self.spec["command"]), str(self.theirs.fileno())]

    def child_forked(self, child: int) -> None:
        """Run in the shim after the fork, while the child waits for its user mapping."""
        self.theirs.close()
        self._session = self._audit.namespace_pid(child)
        if self.spec["own_users"] and self._ours.recv(1) == b"u":
            with suppress(OSError):
                _map_users(child)
                self._ours.sendall(b"m")
                return
            os.kill(child, signal.SIGKILL)

    def wait_launched(self, others: list[int]) -> str | None:
        """Wait until the command runs. Return None, or the reason why it does not run.

        Returns an empty reason if one of `others` became readable first.
        """
        data = marshal.dumps(self.spec["confine"])
        with suppress(OSError):
            self._ours.sendall(len(data).to_bytes(4, "big") + data)
        poller = select.poll()
        for fd in (self._ours.fileno(), *others):
            poller.register(fd, select.POLLIN)
        received, listening = b"", -1
        while True:
            ready = dict(poller.poll())
            if listening in ready:  # executing the command is the first call to be reported
                if ready[listening] & select.POLLIN:
                    self.answer()
                else:
                    poller.unregister(listening)  # no process is left that could make a call
                continue
            if self._ours.fileno() not in ready:
                return ""
            part = self._receive()
            if not part:
                break
            received += part
            _, started, after = received.partition(b"\nstarted\n")
            if started:  # by the first process of the sandbox, which keeps the socket
                self._status_socket, self._after_start = self._ours.fileno(), after
                return None
            if self.listener >= 0 and listening < 0:
                listening = self.listener
                poller.register(listening, select.POLLIN)
        lines = received.decode("utf-8", "replace").splitlines()
        errors = [line.removeprefix("error ") for line in lines if line.startswith("error ")]
        if errors:
            return errors[0]
        return None if "ready" in lines else "the sandbox could not be set up"

    def _receive(self) -> bytes:
        data, fds, _, _ = socket.recv_fds(self._ours, 4096, 4)
        for fd in fds:
            os.set_inheritable(fd, False)
            if data.startswith(b"listener"):  # the descriptor arrives with the first line that is read
                self.listener = fd
                with suppress(OSError):  # a kernel before 6.6 wakes the caller on any CPU
                    fcntl.ioctl(fd, NOTIF_FLAGS, SYNC_WAKE_UP)
            elif data.startswith(b"sockets"):
                self._memory.sockets.adopt(socket.socket(fileno=fd), all_own=True)
            else:
                self._pass_proxy_socket(fd)
        return data

    def _pass_proxy_socket(self, fd: int) -> None:
        if self._proxy_sockets is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(self._proxy_sockets)) as host:
                socket.send_fds(host, [b"d"], [fd])
        os.close(fd)

    # -- watching ---------------------------------------------------------------------------------

    def descriptors(self) -> list[int]:
        """Return the descriptors to wait for, after the launch."""
        if self._status_socket >= 0:
            self._read_status()  # of a command that ended at once
        return [fd for fd in (self.listener, self._status_socket) if fd >= 0]

    def on_ready(self, fd: int, events: int) -> bool:
        """Take what arrived on one of the descriptors. Return False if nothing more will arrive on it."""
        if fd == self._status_socket:
            self._read_status()  # none if the first process itself has ended: then bubblewrap does, too
            return False
        if not events & select.POLLIN:
            return False  # no process is left that could make a call
        self.answer()
        return True

    def answer(self) -> None:
        """Answer a reported call: let it continue, or refuse and report it."""
        buffer = bytearray(NOTIF_BYTES)
        try:
            fcntl.ioctl(self.listener, NOTIF_RECEIVE, buffer)
        except OSError:  # the caller is gone
            return
        number, pid, _, call, _, _, *arguments = _QUESTION.unpack(buffer)
        audit = self._audit
        if call in audit.calls:
            if audit.root < 0 and audit.adopt_root(pid):
                self._memory.look_at_tmp(audit.root)
            given = audit.record(pid, call, arguments, lambda: self._is_waiting(number))
            if self.limit_reached is None:  # else it waits to be killed
                self._answer_traced(number, given)
            return
        self._send(_ANSWER.pack(number, 0, -EPERM, 0))
        refusal: Refusal = describe(call, arguments)
        self._report("refused", refusal.subject, refusal.text)

    def _answer_traced(self, number: int, given: Supplied | None) -> None:
        """Let a traced call continue, or have it return what was done in its place."""
        if given is None or given.descriptor < 0:
            error, how = (0, CONTINUE) if given is None else (-given.error, 0)
            self._send(_ANSWER.pack(number, 0, error, how))
            return
        what = _GIVEN.pack(number, ADDFD_SEND, given.descriptor, 0, os.O_CLOEXEC)
        try:
            fcntl.ioctl(self.listener, NOTIF_ADDFD, what)
        except OSError as error:  # the caller is gone, or may have no more descriptors
            self._send(_ANSWER.pack(number, 0, -(error.errno or EPERM), 0))
        finally:
            os.close(given.descriptor)

    def _send(self, answer: bytes) -> None:
        with suppress(OSError):
            fcntl.ioctl(self.listener, NOTIF_SEND, answer)

    def _is_waiting(self, number: int) -> bool:
        try:
            fcntl.ioctl(self.listener, NOTIF_VALID, _NUMBER.pack(number))
        except OSError:
            return False
        return True

    def _is_own(self, pid: int) -> bool:
        return pid in measure_processes(self._root, 0).pids

    def _usage(self) -> ProcessUsage:
        return measure_processes(self._root, self.spec["own_processes"])

    def _pids(self) -> tuple[int, ...]:
        return self._usage().pids

    def watch_below(self, root: int) -> None:
        """Watch the processes below `root`; 0 if /proc shows only those of the sandbox."""
        self._root = root
        if root == 0:  # they and the init of their namespace are children of this process
            self._memory.pids_here = lambda: self._audit.pids_below(os.getpid())

    def check(self) -> float:
        """Check the limits that are due. Return the seconds until the next check."""
        now = time.monotonic()
        if self.listener < 0 or not self._traces:
            self._disk.note_removal()  # nothing says when
        if now >= self._next_check:
            near = self._check_processes(self._usage())
            self._next_check = now + (NEAR_LIMIT_SECONDS if near else INTERVAL_SECONDS)
            self._audit.flush()
        if self.limit_reached is None and now >= self._disk.next_check:
            self._stop_at(self._disk.check())
        return max(0.0, min(self._next_check, self._disk.next_check) - time.monotonic())

    def report_escaped(self) -> None:
        """Report processes that left the session of the command and are about to be killed."""
        pids = self._pids()
        left = sum(session_of(pid) not in (0, self._session) for pid in pids)
        if left:
            self._report(
                "refused", "left", f"processes that left its session: {left}; they are killed with it"
            )

    def finish(self) -> None:
        """Report what is still queued; nothing runs any more."""
        self._disk.check_quota()  # of a command that was shorter than the time between two looks
        self._audit.finish(FINISH_SECONDS)
        self._audit.supplied.close()

    def check_groups(self) -> None:
        """Report a limit of a control group that has ended or refused something."""
        if self.groups.count("memory"):
            most = format_mib(self.watch["memory"])
            self._stop_at(("memory", f"over {most} of memory; {most} are allowed"))
        elif self.groups.count("pids"):
            most = self.watch["processes"]
            self._stop_at(("processes", f"over {most} processes and threads; {most} are allowed"))

    def _check_processes(self, found: ProcessUsage) -> bool:
        most: int = self.watch["processes"]
        # The kernel never lets more than the limit exist: at the limit, more were tried or soon will be.
        self._at_limit = self._at_limit + 1 if found.processes >= most else 0
        self.check_groups()
        if self._at_limit > 1:
            self._stop_at(("processes", f"{found.processes} processes and threads; {most} are allowed"))
        near = found.processes * 2 > most
        if self._audit.root >= 0:
            self._memory.look_at_tmp(self._audit.root)
        if self._memory.tmp.files > (files := self.watch["files"]):
            self._stop_at(("files", f"over {files} files in its /tmp and /dev/shm; {files} are allowed"))
        if not self.groups.limits("memory"):
            near = self._check_memory(found) or near
        self._audit.check_usage(found)
        self._stop_at_unreadable()
        return near

    def _check_memory(self, found: ProcessUsage) -> bool:
        """Check the memory where no control group limits it. Return whether it is close to the limit."""
        most: int = self.watch["memory"]
        rough = self._memory.rough(found)
        exact = self._memory.exact(found) if rough > most else 0
        if self._memory.is_over(found, exact, most):
            self._stop_at(("memory", f"{format_mib(exact)} of memory; {format_mib(most)} are allowed"))
        return rough * 2 > most

    def _stop_at_unreadable(self) -> None:
        """Stop at processes that the shim could not look into twice: nothing of them would be counted."""
        unreadable = frozenset(self._disk.unreadable)
        if unreadable & self._unreadable:
            text = "a program that may be executed and not read: what it has open cannot be counted"
            self._stop_at(("files", text))
        self._unreadable = unreadable

    def _before_shared(self, size: int) -> None:
        """Note shared memory that is about to be mapped, and check at once whether it may be too much."""
        self._memory.shared.note(size)
        if self._memory.shared.most > self.watch["memory"]:
            self._next_check = 0.0

    def _on_file_limit(self, path: str) -> None:
        most = format_mib(self.watch["file_bytes"])
        self._report("refused", "large file", f"the file {shown(path)} has {most}; no file may have more")

    def _on_quota(self, limit: str, text: str) -> None:
        self._report("refused", limit, text)

    def _before_growth(self) -> None:
        self._stop_at(self._disk.before_growth())

    def _stop_at(self, limit: tuple[str, str] | None) -> None:
        if limit is not None and self.limit_reached is None:
            self.limit_reached, text = limit
            self._report("limit", self.limit_reached, text)

    def _report(self, kind: str, subject: str, text: str) -> None:
        with self._reporting:
            told = self._budget.take(kind, subject)
            if told == "last":
                group = group_of(kind, subject)
                subject, text = f"{group} and more", f"more {group}, not reported one by one for an hour"
            if told != "no":
                self._send_message({"violation": {"kind": kind, "subject": subject, "text": text}})

    def _read_status(self) -> None:
        with suppress(OSError):
            self._after_start += self._ours.recv(4096, socket.MSG_DONTWAIT)
        line, end, _ = self._after_start.partition(b"\n")
        if end:
            self.exit_status = int(line.removeprefix(b"exit "))

    def status_of(self, status: int) -> int:
        """Return the command's own wait status, given the child's: bubblewrap turns a signal into an exit
        status, as shells do."""
        if self.exit_status is not None:
            return self.exit_status
        if self.spec["passes_signals_on"] and os.WIFEXITED(status):
            number = os.WEXITSTATUS(status) - SHELL_SIGNAL
            if number in set(signal.Signals):
                return number
        return status


def _descriptor_of(text: str) -> int:
    """Return a descriptor to read a text from, which the command inherits."""
    read, write = os.pipe()
    os.write(write, text.encode("utf-8", "surrogateescape"))
    os.close(write)
    os.set_inheritable(read, True)
    return read


def _map_users(child: int) -> None:
    """Map every user of the child's namespace to the same user outside."""
    for kind in ("uid_map", "gid_map"):
        with open(f"/proc/self/{kind}") as own:  # noqa: PTH123 - pathlib would double the start-up time
            ranges = [line.split() for line in own]
        text = "".join(f"{first} {first} {count}\n" for first, _, count in ranges)
        with open(f"/proc/{child}/{kind}", "w") as file:  # noqa: PTH123
            file.write(text)
