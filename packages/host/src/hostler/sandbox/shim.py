"""The shim: a small process between the host and one child, so that nothing of the child outlives it.

Run by path with the host's interpreter and nothing but the standard library. It holds the read end of a
control socket; the host holds the other. When the socket ends (the host said so, ended, or was killed), or
when the plugin's own process ends, the shim kills everything the plugin ever started, also what left
its session, and exits.

How it reaches all of them, strongest first:

`namespace`  a PID namespace whose first process is a fork of the shim: the kernel kills every process in
             it when that one dies, and that one dies with the shim.
`subreaper`  orphans of the plugin become children of the shim, which kills its children until none is
             left. Were the shim itself killed by force, what left the plugin's session would remain
             until the host finds it by its marker.
`group`      the plugin's process group only (systems without the above).

The child is a plugin, or a command of an agent, and may be sandboxed: then bubblewrap, or what confines, is
executed in its place, and the shim watches its limits (limits_guard.py).

Control messages are JSON lines. In: one start order. Out: `{"pid", "containment", "note"}` or `{"error"}`,
`{"told": {...}}` for what a sandbox did not let happen, later `{"exit": wait status}`, and `{"clean": bool}`
at the end.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from hostler.sandbox.limits_guard import Guard

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_SLAVE = 0x4000, 0x80000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MAX_ORDER_BYTES = 4 * 1024 * 1024
"""The start order: a manifest and an environment fit many times."""
KILL_SECONDS = 5.0
"""How long killed processes may take to be gone; only ones stuck in the kernel take any time at all."""

_libc: Any = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _checked(_libc.prctl(option, value, 0, 0, 0), "prctl")


def _mount(source: bytes, target: bytes, kind: bytes, flags: int) -> None:
    _checked(_libc.mount(source, target, kind, ctypes.c_ulong(flags), None), f"mount {target.decode()}")


class Shim:
    """One plugin process and all that comes from it."""

    def __init__(self, control: socket.socket, doors: int | None) -> None:
        self.control = control
        self.doors = doors
        self.guard: Guard | None = None
        self.mode = "group"
        self.note = ""
        self.init = 0
        self.outside = -1
        """The PID namespace that the shim itself is in."""
        self.plugin = 0
        self.group = 0
        self.status: int | None = None

    def run(self) -> int:
        """Start what the order says, wait for its end or ours, and leave nothing behind."""
        order = self._read_order()
        if order is None:
            return 0
        wake = self._watch_children()
        if order.get("sandbox") is not None:  # while /proc still shows every process
            self.guard = _guard(order["sandbox"], self._say, self.doors)
        self._contain(order["containment"])
        try:
            self.plugin = self.group = self._start(order)
            why_not = None
            if self.guard is not None:
                self._bear_outside()
                why_not = self.guard.launched([self.control.fileno()])
        except OSError as error:
            why_not = f"{order['command'][0]}: {error.strerror}"
        if why_not is not None:
            self._say({"error": why_not})
            self._kill_all()
            return 1
        devnull = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(devnull, fd)
        self._say({"pid": self.plugin, "containment": self._promise(), "note": self.note})
        status = self._wait(wake)
        if status is not None:
            self._say({"exit": status if self.guard is None else self.guard.status_of(status)})
        if self.guard is not None:
            self.guard.tell_left(self._root())
        clean = self._kill_all()
        if self.guard is not None:
            self.guard.finish()
        self._say({"clean": clean})
        return 0

    # -- starting ---------------------------------------------------------------------------------

    def _read_order(self) -> Any:
        data = b""
        while not data.endswith(b"\n"):
            part = self.control.recv(65536)
            if not part or len(data) > MAX_ORDER_BYTES:
                return None  # the host is gone before it said anything
            data += part
        return json.loads(data)

    def _watch_children(self) -> int:
        """Make the end of a child, and a polite request to end, readable on a file descriptor."""
        wake, write = os.pipe()
        for fd in (wake, write):
            os.set_blocking(fd, False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        return wake

    def _contain(self, wanted: str) -> None:
        if sys.platform != "linux" or wanted == "group":
            self.note = "" if wanted == "group" else f"{sys.platform} offers nothing stronger"
            return
        if wanted in ("auto", "namespace", "user-namespace"):
            user = wanted == "user-namespace"
            try:
                self._enter_namespace(user=user)
            except OSError as error:
                self.note = f"no PID namespace ({error.strerror})"
            else:
                self.mode = "namespace"
                return
        try:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
            self.mode = "subreaper"
        except OSError as error:
            self.note = f"no subreaper ({error.strerror})"

    def _enter_namespace(self, *, user: bool) -> None:
        uid, gid = os.geteuid(), os.getegid()
        self.outside = os.open("/proc/self/ns/pid", os.O_RDONLY)
        _checked(_libc.unshare(CLONE_NEWPID | CLONE_NEWNS | (CLONE_NEWUSER if user else 0)), "unshare")
        if user:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{uid} {uid} 1")
            _write("/proc/self/gid_map", f"{gid} {gid} 1")
        ready, tell = os.pipe()
        self.init = os.fork()
        if self.init == 0:
            os.close(ready)
            self._be_init(tell)
        os.close(tell)
        self.note = _read_all(ready).decode().strip()

    def _be_init(self, tell: int) -> NoReturn:
        """The first process of the namespace: reaps orphans, until it dies with the shim."""
        try:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            note = b" "  # written even where there is nothing to say: it fails where the shim is gone
            try:
                _mount(b"none", b"/", b"none", MS_REC | MS_SLAVE)
                _mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
            except OSError as error:
                note = f"its /proc shows the host's process numbers ({error.strerror})".encode()
            os.write(tell, note)
            os.closerange(0, 1 << 16)
            while True:
                with suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG) != (0, 0):
                        pass
                signal.sigwait({signal.SIGCHLD})
        finally:
            os._exit(1)

    def _start(self, order: dict[str, Any]) -> int:
        failed, tell = os.pipe()
        shim = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_plugin(order, shim)
            except OSError as error:
                os.write(tell, str(error.errno or 0).encode())
            finally:
                os._exit(127)
        os.close(tell)
        if self.guard is not None:
            self.guard.forked(pid)
        if reason := _read_all(failed):
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            number = int(reason)
            raise OSError(number, os.strerror(number))
        return pid

    def _become_plugin(self, order: dict[str, Any], shim: int) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        command = order["command"]
        if self.guard is not None:
            command = self.guard.in_child(_unshare_users)
        if sys.platform == "linux":
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if self.mode != "namespace" and os.getppid() != shim:
                os._exit(127)
        os.chdir(order["cwd"])
        # everything else is close-on-exec: Python opens it so
        os.execvpe(command[0], command, order["env"])  # noqa: S606 - no shell is wanted

    def _bear_outside(self) -> None:
        """No more children in the new namespace: a thread could not be one."""
        if self.outside >= 0:
            _libc.setns(self.outside, CLONE_NEWPID)

    def _promise(self) -> str:
        """How it is contained: a sandbox may do more than the shim."""
        own = None if self.guard is None else self.guard.order["mode"]
        return own or self.mode

    # -- waiting ----------------------------------------------------------------------------------

    def _wait(self, wake: int) -> int | None:
        """Until the plugin ended (its wait status) or the host wants it gone (None)."""
        poller = select.poll()
        for fd in (wake, self.control.fileno()):
            poller.register(fd, select.POLLIN)
        if self.guard is not None and self.guard.listener >= 0:
            poller.register(self.guard.listener, select.POLLIN)
        self._reap()
        while True:
            if self.status is not None:
                return self.status
            for fd, events in poller.poll(self._rest()):
                if fd == self.control.fileno():
                    return None  # only the end of the socket, or a byte that means the same, arrives
                if fd == wake:
                    if signal.SIGTERM in os.read(wake, 512):
                        return None
                    self._reap()
                elif self.guard is not None and not events & select.POLLIN:
                    poller.unregister(fd)  # nobody is left who could ask
                elif self.guard is not None:
                    self.guard.answer()
            if self.guard is not None and self.guard.reached is not None:
                return None

    def _rest(self) -> float | None:
        """Milliseconds until the limits of a sandbox are looked at again."""
        return None if self.guard is None else 1000 * self.guard.look(self._root()) + 1

    def _root(self) -> int:
        """Below which process all others are; 0: /proc shows no others."""
        return 0 if self.mode == "namespace" and not self.note else os.getpid()

    def _reap(self) -> bool:
        """Collect what ended, the plugin's status among it. False: no children are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.plugin:
                self.status, self.plugin = status, 0
            elif pid == self.init:
                self.init = 0

    # -- ending -----------------------------------------------------------------------------------

    def _kill_all(self) -> bool:
        """Kill everything of the plugin. True once nothing is left."""
        end = time.monotonic() + KILL_SECONDS
        while time.monotonic() < end:
            self._kill_once()
            if not self._reap():
                return self.mode != "group"
            time.sleep(0.002)
        return False

    def _kill_once(self) -> None:
        if self.mode == "namespace":
            targets = [pid for pid in (self.init, self.plugin) if pid]
        elif self.mode == "subreaper":
            targets = descendants(os.getpid())
        else:
            targets = []
            if self.group:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.group, signal.SIGKILL)
        for pid in targets:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _say(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # nobody listens any more: the host is gone
            self.control.sendall(json.dumps(message).encode() + b"\n")


def descendants(root: int) -> list[int]:
    """All processes below `root`, the oldest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                children.setdefault(_parent(int(name)), []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up time
        return int(file.read().rpartition(b")")[2].split()[1])


def _guard(order: dict[str, Any], say: Any, doors: int | None) -> Guard:
    sys.path.append(os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - only a sandbox needs more files
    from hostler.sandbox.limits_guard import Guard  # noqa: PLC0415

    return Guard(order, say, doors)


def _unshare_users() -> None:
    _checked(_libc.unshare(CLONE_NEWUSER), "unshare")


def _read_all(fd: int) -> bytes:
    data = b""
    while part := os.read(fd, 4096):
        data += part
    os.close(fd)
    return data


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)


def main() -> int:
    """Take the sockets from the host; the child must not inherit them."""
    control, *doors = map(int, sys.argv[1:])
    for fd in (control, *doors):
        os.set_inheritable(fd, False)
    return Shim(socket.socket(fileno=control), doors[0] if doors else None).run()


if __name__ == "__main__":
    sys.exit(main())
