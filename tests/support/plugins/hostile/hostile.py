"""A plugin that tries what no sandboxed plugin may do, and says what came of it.

Its input is JSON: `{"try": name, ...}`; its answer is `{"got": ...}` or `{"error": ...}`.
"""

import ctypes
import fcntl
import io
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from hostler_sdk import Runner

LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number, *arguments):
    return checked(LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))


def read(path):
    return Path(path).read_text()[:200]


def list_folder(path):
    return sorted(os.listdir(path))


def environment(pid):
    """Every variable of every process in sight, the host's among them."""
    found = dict(os.environ)
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        pids = []
    for each in {*pids, str(pid), str(os.getppid()), "1"}:
        try:
            found[each] = Path("/proc", each, "environ").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
    return json.dumps(found)


def write(path):
    Path(path).write_text("pwned")
    return "written"


def through_link(path, how="read"):
    """Reach a file by a link that lies in the workspace."""
    link = Path.home() / f"link-{os.urandom(4).hex()}"
    link.symlink_to(path)
    return read(link) if how == "read" else write(link)


def hard_link(path):
    target = Path.home() / f"hard-{os.urandom(4).hex()}"
    os.link(path, target)
    return read(target)


def unpack(how, path):
    """An archive whose entries lead out of the workspace, unpacked without any care."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for entry in ENTRIES[how](path):
            entry.size = 0 if entry.type != tarfile.REGTYPE else 5
            archive.addfile(entry, io.BytesIO(b"pwned"))
    data.seek(0)
    with tarfile.open(fileobj=data) as archive:
        for entry in archive:
            where = os.path.join(Path.home(), entry.name)
            if entry.issym():
                os.symlink(entry.linkname, where)
            elif entry.islnk():
                os.link(entry.linkname, where)
            elif entry.ischr():
                os.mknod(where, 0o20666, os.makedev(1, 1))
            else:
                with open(where, "wb") as file:
                    file.write(archive.extractfile(entry).read())
    return "unpacked"


def entry(name, kind=tarfile.REGTYPE, target=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made


ENTRIES = {
    "absolute": lambda path: [entry(path)],
    "above": lambda path: [entry("../" * 30 + path.lstrip("/"))],
    "link": lambda path: [
        entry("way", tarfile.SYMTYPE, os.path.dirname(path)),
        entry(f"way/{os.path.basename(path)}"),
    ],
    "hard link": lambda path: [entry("hard", tarfile.LNKTYPE, path)],
    "device": lambda _: [entry("device", tarfile.CHRTYPE)],
}


def tcp(port, host="127.0.0.1"):
    with socket.create_connection((host, port), 5) as made:
        made.sendall(b"hello")
    return "connected"


def udp(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"hello", ("127.0.0.1", port))
    return "sent"


def unix(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path if not path.startswith("@") else "\0" + path[1:])
        made.sendall(b"hello")
    return "connected"


def unix_pair(path):
    """A pair of sockets, turned to somebody else's address."""
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"hello", path)
    return "sent"


def own_socket():
    """A socket of its own, and a connection to it from another process."""
    return connected_to(socket.AF_UNIX, "/tmp/own-socket")


def own_port():
    return connected_to(socket.AF_INET, ("127.0.0.2", 8765))


def connected_to(family, address):
    with socket.socket(family) as listening:
        listening.bind(address)
        listening.listen()
        code = f"import socket; socket.socket({int(family)}).connect({address!r})"
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
        listening.accept()
    return "connected"


def memory_of(pid):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0):
        return "open"


def raw():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "open"


def packet():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    return "open"


def signal_to(pid):
    os.kill(pid, 18)
    return "sent"


def limits_of(pid):
    resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    return "changed"


def trace(pid):
    return checked(LIBC.ptrace(16, pid, 0, 0))


def priority_of(pid):
    os.setpriority(os.PRIO_PROCESS, pid, 19)
    return "changed"


def user_namespace():
    return checked(LIBC.unshare(0x10000000))


def mount():
    return checked(LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None))


def root_again():
    os.setuid(0)
    return os.getuid()


def keys():
    return syscall({"x86_64": 250, "aarch64": 219}[os.uname().machine], 0, -3, 0)


def programs():
    return syscall({"x86_64": 321, "aarch64": 280}[os.uname().machine], 0, 0, 0)


def uring():
    return syscall(425, 8, 0)


def raise_limits():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    return "raised"


def descriptors():
    files = []
    try:
        while True:
            files.append(open("/dev/null"))  # noqa: SIM115
    except OSError as error:
        return f"{len(files)} then {error.strerror}"


def large_file():
    with open(Path.home() / "large", "wb") as file:
        while True:
            file.write(bytes(1 << 20))


def errors(kib):
    """More errors at once than anybody reads."""
    for _ in range(kib):
        os.write(2, b"x" * 1023 + b"\n")
    return "written"


def output(mib):
    """What is no message, and far too long, where the host reads messages."""
    for number in range(3, 64):
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
            if is_pipe and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                os.set_blocking(number, True)
                for _ in range(mib):
                    os.write(number, b"x" * (1 << 20))
                os.write(number, b"\n")
        except OSError:
            continue
    raise OSError("nothing came of it")


def daemon(seconds):
    """A grandchild that leaves the session, and the environment it would be known by."""
    lines = (
        "import os, time",
        "if os.fork() == 0:",
        "  os.setsid()",
        f"  os.fork() or time.sleep({seconds})",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], env={}, check=True)
    return "left"


def memory(mib):
    held = [bytearray(b"x") * (1 << 20) for _ in range(mib)]
    while held:
        time.sleep(1)


def memory_at_once():
    return len(bytearray(1 << 34))


def forks():
    while True:
        try:
            if os.fork() == 0:
                continue
        except OSError:
            continue


def disk():
    for number in range(1 << 20):
        (Path.home() / f"part-{number}").write_bytes(bytes(1 << 20))


def many_files():
    for number in range(1 << 20):
        (Path.home() / f"empty-{number}").touch()


class Hostile(Runner):
    """Tries."""

    async def run(self, ctx):
        """Try one thing."""
        wanted = json.loads(ctx.input.text)
        what = globals()[wanted.pop("try")]
        try:
            return json.dumps({"got": what(**wanted)})
        except Exception as error:  # noqa: BLE001 - whatever it is, the test wants to know
            return json.dumps({"error": f"{type(error).__name__}: {error}"})
