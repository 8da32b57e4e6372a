"""The last step into a sandbox: takes away from itself what the order says, then becomes the command.

Run by path, inside the namespaces that bubblewrap made or without any, with the host's interpreter and
nothing but the standard library: `python -I -S confine.py FD`. FD is a socket to the shim, from which the
order comes with its length before it, and over which lines go: `door` with the socket on which the proxy is
reached, `listener` with the descriptor that hears of refused calls, then `ready`; or `error` and why.

Its imports are few: every start of a sandbox pays for them.
"""

from __future__ import annotations

import _socket
import ctypes
import marshal
import os
import resource
import sys
from contextlib import suppress
from typing import Any

PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 8, 24, 28
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 38, 47
NO_SETUID_FIXUP, NO_SETUID_FIXUP_LOCKED = 1 << 2, 1 << 3
PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, LAST_POSSIBLE_CAP = 1, 2, 63
CAPABILITY_VERSION = 0x20080522
SECCOMP_NUMBER = {"x86_64": 317, "aarch64": 277}
SECCOMP_SET_MODE_FILTER, SECCOMP_NEW_LISTENER = 1, 8
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_VERSION, LANDLOCK_PATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
MAKE_DEVICES_AND_SOCKETS = (1 << 6) | (1 << 9) | (1 << 11)
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
LISTEN_BACKLOG = 64
_libc: Any = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int, third: int = 0) -> None:
    """Call prctl, or raise."""
    _checked(_libc.prctl(option, value, third, 0, 0), "prctl")


# -- files, without namespaces --------------------------------------------------------------------


def landlock_version() -> int:
    """The version of Landlock that the kernel speaks; 0 where there is none."""
    return max(0, int(_libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION)))


def _rights(version: int) -> int:
    """All rights over files that this version knows."""
    if version == 1:
        return REFER - 1
    if version == 2:
        return TRUNCATE - 1
    return (IOCTL_DEV - 1) | (IOCTL_DEV if version >= 5 else 0)


def hold_files(order: dict[str, Any]) -> None:
    """Leave nothing in reach but the folders of the order, no TCP, and no signals to what is outside.

    With `network` in the order TCP stays.
    """
    version = landlock_version()
    everything = _rights(version)
    tcp = 3 if version >= 4 and not order.get("network") else 0
    wanted = _Ruleset(everything, tcp, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(_libc.syscall(LANDLOCK_CREATE, ctypes.byref(wanted), size, 0), "landlock")
    reading, writing = EXECUTE | READ_FILE | READ_DIR, everything & ~MAKE_DEVICES_AND_SOCKETS
    devices = (READ_FILE | WRITE_FILE | TRUNCATE) & everything
    for paths, rights in ((order["read"], reading), (order["write"], writing), (order["devices"], devices)):
        for path in paths:
            with suppress(FileNotFoundError):
                _allow(ruleset, path, rights)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _checked(_libc.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib would double the start-up time
            rights &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
        rule = _Beneath(rights, folder)
        _checked(_libc.syscall(LANDLOCK_ADD, ruleset, LANDLOCK_PATH, ctypes.byref(rule), 0), path)
    finally:
        os.close(folder)


# -- the user -------------------------------------------------------------------------------------


def become_user(uid: int) -> None:
    """Be a user who owns nothing here, and who may at most read what is in sight whoever it belongs to."""
    keep = _reading_capability()
    os.setgroups([])
    for capability in range(LAST_POSSIBLE_CAP + 1):
        if capability != keep:
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # the highest ones are unknown to the kernel
    prctl(PR_SET_KEEPCAPS, 1)
    # access(2) asks for a user without capabilities unless this is set, and would deny what can be read.
    # It takes CAP_SETPCAP; without that access(2) stays wrong about what is root's alone, and nothing else.
    _libc.prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP | NO_SETUID_FIXUP_LOCKED, 0, 0, 0)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    hold_capabilities(keep)


def _reading_capability() -> int | None:
    with open("/proc/self/status") as file:  # noqa: PTH123
        line = next(line for line in file if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    return next((one for one in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if held & (1 << one)), None)


def hold_capabilities(kept: int | None) -> None:
    """Keep this one capability through the start of the command, or none at all."""
    bits = 0 if kept is None else 1 << kept
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")
    if kept is not None:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept)


# -- limits and calls -----------------------------------------------------------------------------


def set_limits(order: dict[str, Any]) -> None:
    """Of every process; nothing raises them again."""
    if order["cpus"] is not None:
        usable = sorted(os.sched_getaffinity(0))
        start = os.getpid() % len(usable)
        os.sched_setaffinity(0, (usable[start:] + usable)[: order["cpus"]])
    for name, value in order["rlimits"].items():
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # the first signal of too much processor time can be caught, so the second one comes soon after
        resource.setrlimit(number, (most, most + 1 if name == "CPU" and most == value else most))


def filter_calls(order: dict[str, Any]) -> int | None:
    """Load the filter; the descriptor that hears of refused calls; None where another one hears already."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    listener = _load(order["told"], SECCOMP_NEW_LISTENER)
    if listener is not None:
        return listener
    if _load(order["untold"], 0) is None:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    return None


def _load(text: str, flags: int) -> int | None:
    code = bytes.fromhex(text)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    call = SECCOMP_NUMBER[os.uname().machine]
    done = int(_libc.syscall(call, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program)))
    return None if done < 0 else done


def open_door(port: int) -> _socket.socket:
    """The address inside at which the proxy outside is reached: it alone accepts there."""
    door = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    door.bind(("127.0.0.1", port))
    door.listen(LISTEN_BACKLOG)
    return door


# -- the way --------------------------------------------------------------------------------------


class ShimSocket:
    """The socket to the shim."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self.socket = _socket.socket(fileno=fd)

    def order(self) -> dict[str, Any]:
        """What is to be done."""
        data = self._exactly(int.from_bytes(self._exactly(4), "big"))
        order: dict[str, Any] = marshal.loads(data)  # noqa: S302 - the shim is the same program
        return order

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                os._exit(127)  # the shim is gone
            data += part
        return data

    def say(self, text: str, fd: int | None = None) -> None:
        """Tell something in a line, and give a descriptor along."""
        line = text.replace("\n", " ").encode() + b"\n"
        if fd is None:
            self.socket.sendall(line)
            return
        given = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))
        self.socket.sendmsg([line], [given])
        os.close(fd)


def confine(order: dict[str, Any], shim: ShimSocket) -> None:
    """Take away everything that the order does not leave."""
    if order["door"] is not None:
        shim.say("door", open_door(order["door"]).detach())
    if order["uid"] is not None:
        become_user(order["uid"])
    else:
        hold_capabilities(None)
    if order["landlock"] is not None:
        hold_files(order["landlock"])
    os.umask(0o022)
    set_limits(order)
    listener = filter_calls(order)
    if listener is not None:
        shim.say("listener", listener)
    os.chdir(order["cwd"])
    shim.say("ready")


def main() -> None:
    """Confine this process, then become the command."""
    shim = ShimSocket(int(sys.argv[1]))
    order = shim.order()
    try:
        confine(order, shim)
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - no shell is wanted
    except OSError as error:
        name = "" if error.filename is None else f"{error.filename}: "
        shim.say(f"error {name}{error.strerror}")
    os._exit(127)


if __name__ == "__main__":
    main()
