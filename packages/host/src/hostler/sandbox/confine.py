"""The last step into a sandbox: restrict this process as the spec says, then execute the command.

Run by path, with the host's interpreter and only the standard library: `python -I -S confine.py FD`; inside
the namespaces made by bubblewrap, or without any. FD is a socket to the shim. The shim sends the spec,
prefixed by its length. This process sends lines: `proxy` with the socket on which the proxy accepts,
`sockets` with one that asks for the sockets of its network, `listener` with the seccomp listener, then
`ready`; or `error` and the reason.

With namespaces it is the first process of the sandbox (pid 1). Under all restrictions of the sandbox it
starts the command as its child, sends `started`, then `exit` with the child's wait status, and reaps orphans
until the shim kills it.

It imports little, because every start of a sandbox pays for it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` would import more
import _socket
import ctypes
import marshal
import os
import resource
import sys
from contextlib import suppress

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all others here
if TYPE_CHECKING:
    from typing import Any, NoReturn

AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG = 16, 3, 4
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 8, 24, 28
PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_CAP_AMBIENT = 38, 41, 47
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
SIGINT, SIGKILL, SIG_DFL = 2, 9, 0
MAX_DESCRIPTORS = 1 << 16
FILE_TYPE, PIPE = 0o170000, 0o010000
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
    """Call prctl; raise OSError if it fails."""
    _checked(_libc.prctl(option, value, third, 0, 0), "prctl")


# -- files, without namespaces --------------------------------------------------------------------


def landlock_version() -> int:
    """Return the Landlock version of the kernel, or 0 without Landlock."""
    return max(0, int(_libc.syscall(LANDLOCK_CREATE, None, 0, LANDLOCK_VERSION)))


def _rights(version: int) -> int:
    """Return all file rights known to a Landlock version."""
    if version == 1:
        return REFER - 1
    if version == 2:
        return TRUNCATE - 1
    return (IOCTL_DEV - 1) | (IOCTL_DEV if version >= 5 else 0)


def restrict_files(spec: dict[str, Any]) -> None:
    """Allow only the folders of the spec; cut off TCP, and signals to processes outside.

    With `network` in the spec TCP stays allowed.
    """
    version = landlock_version()
    everything = _rights(version)
    tcp = 3 if version >= 4 and not spec.get("network") else 0
    wanted = _Ruleset(everything, tcp, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(_libc.syscall(LANDLOCK_CREATE, ctypes.byref(wanted), size, 0), "landlock")
    reading, writing = EXECUTE | READ_FILE | READ_DIR, everything & ~MAKE_DEVICES_AND_SOCKETS
    devices = (READ_FILE | WRITE_FILE | TRUNCATE) & everything
    for paths, rights in ((spec["read"], reading), (spec["devices"], devices)):
        for path in paths:
            with suppress(FileNotFoundError):
                _allow(ruleset, path, rights)
    for path in spec["write"]:
        _allow(ruleset, path, writing, spec.get("folders"))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _checked(_libc.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int, expected: Any = None) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if expected is not None:
            check_folder(path, os.fstat(folder), expected)
        if not os.path.isdir(path):  # noqa: PTH112 - pathlib would double the start-up time
            rights &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
        rule = _Beneath(rights, folder)
        _checked(_libc.syscall(LANDLOCK_ADD, ruleset, LANDLOCK_PATH, ctypes.byref(rule), 0), path)
    finally:
        os.close(folder)


def check_folder(path: str, status: os.stat_result, expected: Any) -> None:
    """Check that a writable folder is one of those that the host prepared. Raises FileNotFoundError."""
    if [status.st_dev, status.st_ino] not in expected:
        raise FileNotFoundError(2, "another folder has taken its place", path)


# -- the user -------------------------------------------------------------------------------------


def become_user(uid: int) -> None:
    """Become a user who owns nothing here but can read all visible files, whoever owns them."""
    keep = _reading_capability()
    for fd in range(3):  # its own pipes can be opened by name then (/dev/stderr)
        with suppress(OSError):
            if os.fstat(fd).st_mode & FILE_TYPE == PIPE:
                os.fchown(fd, uid, uid)
    os.setgroups([])
    for capability in range(LAST_POSSIBLE_CAP + 1):
        if capability != keep:
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # the kernel does not know the highest ones
    prctl(PR_SET_KEEPCAPS, 1)
    # Without this, access(2) would ignore the capability and deny files that can be read.
    # It needs CAP_SETPCAP; without that, access(2) is wrong about files that only root may read.
    _libc.prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP | NO_SETUID_FIXUP_LOCKED, 0, 0, 0)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    keep_capability(keep)


def _reading_capability() -> int | None:
    with open("/proc/self/status") as file:  # noqa: PTH123
        line = next(line for line in file if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    return next((one for one in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if held & (1 << one)), None)


def keep_capability(kept: int | None) -> None:
    """Keep this one capability across execve, or none."""
    bits = 0 if kept is None else 1 << kept
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")
    if kept is not None:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept)


# -- limits and calls -----------------------------------------------------------------------------


def set_limits(spec: dict[str, Any]) -> None:
    """Set the limits of each process; they cannot be raised again."""
    if spec["cpus"] is not None:
        usable = sorted(os.sched_getaffinity(0))
        start = os.getpid() % len(usable)
        os.sched_setaffinity(0, (usable[start:] + usable)[: spec["cpus"]])
    for name, value in spec["rlimits"].items():
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # the first signal of the CPU limit can be caught, so the second follows soon after
        resource.setrlimit(number, (most, most + 1 if name == "CPU" and most == value else most))


def filter_calls(spec: dict[str, Any]) -> int | None:
    """Load the filter. Return its listener, or None if another filter has one already."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    listener = _load(spec["filter"], SECCOMP_NEW_LISTENER)
    if listener is not None:
        return listener
    if _load(spec["silent_filter"], 0) is None:
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


def open_proxy_socket(port: int) -> _socket.socket:
    """Listen on the sandbox's address of the proxy; the proxy outside accepts the connections."""
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(LISTEN_BACKLOG)
    return listener


# -- the sequence ---------------------------------------------------------------------------------


class ShimSocket:
    """The socket to the shim."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self.socket = _socket.socket(fileno=fd)

    def read_spec(self) -> dict[str, Any]:
        """Receive the spec."""
        data = self._read_exactly(int.from_bytes(self._read_exactly(4), "big"))
        spec: dict[str, Any] = marshal.loads(data)  # noqa: S302 - the shim is the same program
        return spec

    def _read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                os._exit(127)  # the shim is gone
            data += part
        return data

    def send(self, text: str, fd: int | None = None) -> None:
        """Send a line, with a descriptor attached if one is given."""
        line = text.replace("\n", " ").encode() + b"\n"
        if fd is None:
            self.socket.sendall(line)
            return
        ancillary = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))
        self.socket.sendmsg([line], [ancillary])
        os.close(fd)


def confine(spec: dict[str, Any], shim: ShimSocket) -> None:
    """Remove every right that the spec does not grant."""
    if spec["proxy_port"] is not None:
        shim.send("proxy", open_proxy_socket(spec["proxy_port"]).detach())
    if spec["is_first"]:
        with suppress(OSError):  # a kernel without it: what sockets hold is not counted
            diag = _socket.socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG)
            shim.send("sockets", diag.detach())
    for path in spec["writable"]:
        check_folder(path, os.stat(path), spec["folders"])  # noqa: PTH116 - as above
    if spec["uid"] is not None:
        become_user(spec["uid"])
    else:
        keep_capability(None)
    if spec["landlock"] is not None:
        restrict_files(spec["landlock"])
    os.umask(0o022)
    set_limits(spec)
    if not spec["huge_pages"]:  # what is left of one counts as little as it is, and occupies all of it
        prctl(PR_SET_THP_DISABLE, 1)
    if spec["is_first"]:
        prctl(PR_SET_PDEATHSIG, SIGKILL)  # again: the kernel drops it with a change of the user
        # No process of the sandbox may read or write this one's memory. The filter hides this call later on.
        prctl(PR_SET_DUMPABLE, 0)
    listener = filter_calls(spec)
    if listener is not None:
        shim.send("listener", listener)
    shim.send("ready")


def execute(spec: dict[str, Any]) -> NoReturn:
    """Execute the command. Raises OSError."""
    os.chdir(spec["cwd"])
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606 - no shell is wanted


def describe(error: OSError) -> str:
    """Return a line for the shim."""
    name = "" if error.filename is None else f"{error.filename}: "
    return f"error {name}{error.strerror}"


def start_and_reap(spec: dict[str, Any], shim: ShimSocket) -> NoReturn:
    """Start the command as a child and report its end; reap orphans until the shim kills this process."""
    _signal.signal(SIGINT, SIG_DFL)  # pid 1 gets no signal that it does not catch
    failed, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            prctl(PR_SET_DUMPABLE, 1)  # the shim reads the names of files in its memory
            execute(spec)
        except OSError as error:
            os.write(report, describe(error).encode())
        os._exit(127)
    os.close(report)
    reason = b""
    while part := os.read(failed, 4096):
        reason += part
    shim.send(reason.decode() if reason else "started")
    if reason:
        os._exit(127)
    own = shim.socket.fileno()
    os.closerange(0, own)  # the pipes of the command, whose end its readers wait for
    os.closerange(own + 1, MAX_DESCRIPTORS)
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            _signal.pause()
            continue
        if ended == child:
            shim.send(f"exit {status}")


def main() -> None:
    """Restrict this process, then execute the command."""
    shim = ShimSocket(int(sys.argv[1]))
    spec = shim.read_spec()
    try:
        confine(spec, shim)
        if spec["is_first"]:
            start_and_reap(spec, shim)
        execute(spec)
    except OSError as error:
        with suppress(OSError):  # the shim is gone
            shim.send(describe(error))
    os._exit(127)


if __name__ == "__main__":
    main()
