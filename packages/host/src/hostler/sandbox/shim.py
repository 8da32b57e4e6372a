"""The shim: a small process between the host and one child, so that no process outlives the child.

Run by path with the host's interpreter and only the standard library. Shim and host each hold one end of a
control socket. When the socket closes (the host closed it, ended or was killed), or when the child ends, the
shim kills every process the child ever started, including those that left its session, and exits.

Containment modes, strongest first:

`namespace`  a PID namespace whose init is a fork of the shim. When the shim dies the init dies, and the
             kernel then kills every process in the namespace.
`subreaper`  orphans of the child become children of the shim, which kills its children until none is left. If
             the shim itself is killed, processes that left the child's session remain until the host finds
             them by their marker.
`group`      the child's process group only, on systems without the above.

The child is a plugin or a command of an agent. If it is sandboxed, bubblewrap or confine.py is executed in
its place, and the shim watches the limits (limits_guard.py).

Control messages are JSON lines. In: one launch message. Out: `{"pid", "containment", "note"}` or `{"error"}`,
`{"violation": {...}}` for each thing the sandbox prevented, later `{"exit": wait status}`, and `{"clean":
bool}` at the end.
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

TYPE_CHECKING = False  # as that of `typing`, which a plugin without a sandbox does not need
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from hostler.sandbox.limits_guard import LimitsGuard

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_SLAVE = 0x4000, 0x80000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MAX_LAUNCH_BYTES = 4 * 1024 * 1024
"""Maximum size of the launch message: many times a manifest and an environment."""
KILL_SECONDS = 5.0
"""How long killed processes may take to disappear; only those stuck in the kernel need any time."""

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
    """One child process and all its descendants."""

    def __init__(self, control: socket.socket, proxy_sockets: int | None) -> None:
        self.control = control
        self.proxy_sockets = proxy_sockets
        self.guard: LimitsGuard | None = None
        self.mode = "group"
        self.note = ""
        self.init = 0
        self.host_namespace = -1
        """Descriptor of the PID namespace that the shim itself runs in."""
        self.child = 0
        self.group = 0
        self.status: int | None = None

    def run(self) -> int:
        """Start the child, wait for its end or the host's, and kill what is left; return the exit status."""
        launch = self._read_launch()
        if launch is None:
            return 0
        wake = self._watch_children()
        if launch.get("sandbox") is not None:  # while /proc still shows every process
            self.guard = _guard(launch["sandbox"], self._send, self.proxy_sockets)
        try:
            failure = self._launch(launch)
        except OSError as error:
            failure = f"{error.filename or launch['command'][0]}: {error.strerror}"
        if failure is not None:
            self._send({"error": failure})
            self._kill_all()
            return 1
        devnull = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(devnull, fd)
        self._send({"pid": self.child, "containment": self._containment(), "note": self.note})
        status = self._wait(wake)
        if self.guard is not None:
            self.guard.check_groups()
            self.guard.report_escaped()
        if status is not None:
            self._send({"exit": status if self.guard is None else self.guard.status_of(status)})
        clean = self._kill_all()
        if self.guard is not None:
            self.guard.finish()
        self._send({"clean": clean})
        return 0

    # -- starting ---------------------------------------------------------------------------------

    def _launch(self, launch: dict[str, Any]) -> str | None:
        """Start the child. Return None, or why it does not run. Raises OSError."""
        guard = self.guard
        if guard is None:
            self._contain(launch["containment"])
            self.child = self.group = self._start(launch)
            return None
        guard.groups.join_around()  # what is forked from here on has the share of the sandbox
        self._contain(launch["containment"])
        guard.watch_below(self._root())
        guard.open_folders()
        self.child = self.group = self._start(launch)
        self._leave_namespace()
        return guard.wait_launched([self.control.fileno()])

    def _read_launch(self) -> Any:
        data = b""
        while not data.endswith(b"\n"):
            part = self.control.recv(65536)
            if not part or len(data) > MAX_LAUNCH_BYTES:
                return None  # the host closed the socket before sending a launch message
            data += part
        return json.loads(data)

    def _watch_children(self) -> int:
        """Return a descriptor that becomes readable when a child ends or SIGTERM arrives."""
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
        self.host_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        _checked(_libc.unshare(CLONE_NEWPID | CLONE_NEWNS | (CLONE_NEWUSER if user else 0)), "unshare")
        if user:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{uid} {uid} 1")
            _write("/proc/self/gid_map", f"{gid} {gid} 1")
        ready, report = os.pipe()
        self.init = os.fork()
        if self.init == 0:
            os.close(ready)
            self._run_init(report)
        os.close(report)
        self.note = _read_all(ready).decode().strip()

    def _run_init(self, report: int) -> NoReturn:
        """Run as init of the namespace: reap orphans until it dies with the shim."""
        try:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            note = b" "  # written even without a note: the write fails if the shim is gone
            try:
                _mount(b"none", b"/", b"none", MS_REC | MS_SLAVE)
                _mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
            except OSError as error:
                note = f"its /proc shows the host's process numbers ({error.strerror})".encode()
            os.write(report, note)
            os.closerange(0, 1 << 16)
            while True:
                with suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG) != (0, 0):
                        pass
                signal.sigwait({signal.SIGCHLD})
        finally:
            os._exit(1)

    def _start(self, launch: dict[str, Any]) -> int:
        failed, report = os.pipe()
        shim = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._exec_child(launch, shim)
            except OSError as error:
                os.write(report, str(error.errno or 0).encode())
            finally:
                os._exit(127)
        os.close(report)
        if self.guard is not None:
            self.guard.child_forked(pid)
        if reason := _read_all(failed):
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            number = int(reason)
            raise OSError(number, os.strerror(number))
        return pid

    def _exec_child(self, launch: dict[str, Any], shim: int) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        command = launch["command"]
        if self.guard is not None:
            command = self.guard.child_command(_unshare_users)
        if sys.platform == "linux":
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if self.mode != "namespace" and os.getppid() != shim:
                os._exit(127)
        os.chdir(launch["cwd"])
        # all other descriptors are close-on-exec, Python's default
        os.execvpe(command[0], command, launch["env"])  # noqa: S606 - no shell is wanted

    def _leave_namespace(self) -> None:
        """Create later children outside the new namespace: threads cannot be created in another one."""
        if self.host_namespace >= 0:
            _libc.setns(self.host_namespace, CLONE_NEWPID)

    def _containment(self) -> str:
        """Return the containment mode; a sandbox may be stronger than the shim's own."""
        own = None if self.guard is None else self.guard.spec["mode"]
        return own or self.mode

    # -- waiting ----------------------------------------------------------------------------------

    def _wait(self, wake: int) -> int | None:
        """Return the wait status when the child has ended, or None when it must be killed."""
        poller = select.poll()
        guard = self.guard
        for fd in (wake, self.control.fileno(), *(() if guard is None else guard.descriptors())):
            poller.register(fd, select.POLLIN)
        self._reap()
        while True:
            if self.status is not None:
                return self.status
            if guard is not None and guard.exit_status is not None:
                return guard.exit_status
            for fd, events in poller.poll(self._poll_timeout()):
                if fd == self.control.fileno():
                    return None  # either end of file or a kill byte
                if fd == wake:
                    if signal.SIGTERM in os.read(wake, 512):
                        return None
                    self._reap()
                elif guard is not None and not guard.on_ready(fd, events):
                    poller.unregister(fd)
            if guard is not None and guard.limit_reached is not None:
                return None

    def _poll_timeout(self) -> float | None:
        """Return the milliseconds until the limits are due for a check, or None without limits."""
        return None if self.guard is None else 1000 * self.guard.check() + 1

    def _root(self) -> int:
        """Return the process whose descendants belong to the sandbox; 0 if /proc shows only those."""
        return 0 if self.mode == "namespace" and not self.note else os.getpid()

    def _reap(self) -> bool:
        """Reap ended children and note the child's status. Return False if no children are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self.status, self.child = status, 0
            elif pid == self.init:
                self.init = 0

    # -- ending -----------------------------------------------------------------------------------

    def _kill_all(self) -> bool:
        """Kill all processes of the child. Return True if certainly none is left."""
        end = time.monotonic() + KILL_SECONDS
        while time.monotonic() < end:
            self._kill_once()
            if not self._reap():
                return self.mode != "group"
            time.sleep(0.002)
        return False

    def _kill_once(self) -> None:
        if self.guard is not None:
            self.guard.groups.kill()
        if self.mode == "namespace":
            targets = [pid for pid in (self.init, self.child) if pid]
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

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the host is gone
            self.control.sendall(json.dumps(message).encode() + b"\n")


def descendants(root: int) -> list[int]:
    """Return all descendants of `root`, parents first."""
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


def _guard(launch: dict[str, Any], say: Any, proxy_sockets: int | None) -> LimitsGuard:
    sys.path.append(os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - only a sandbox needs more
    from hostler.sandbox.limits_guard import LimitsGuard  # noqa: PLC0415

    return LimitsGuard(launch, say, proxy_sockets)


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
    """Take over the sockets passed by the host; the child must not inherit them."""
    control, *proxy_sockets = map(int, sys.argv[1:])
    for fd in (control, *proxy_sockets):
        os.set_inheritable(fd, False)
    return Shim(socket.socket(fileno=control), proxy_sockets[0] if proxy_sockets else None).run()


if __name__ == "__main__":
    sys.exit(main())
