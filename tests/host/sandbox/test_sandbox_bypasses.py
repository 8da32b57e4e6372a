"""Ways around the limits of a sandbox: memory and files that a simple sum does not see.

Each is tried on every mechanism, as root and as an ordinary user, with control groups where this machine has
them, and without. A program that held several times its limit for a while prints `through`. All programs of a
test run one after the other, each in a sandbox of its own; one host makes them, as it takes longer to start.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.hostile_runs import combinations
from support.sandbox_programs import ended_each

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.gate("sandbox-memory"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
PLACES = combinations() if sys.platform == "linux" else []
WAYS = [
    (mechanism, user, how)
    for mechanism, user in PLACES
    for how in (("groups", "looks") if user == "root" else ("looks",))
]
MIB = 1 << 20
MEMORY, DISK, FILE, FILES = 128 * MIB, 16 * MIB, 8 * MIB, 300
LIMITS = {
    "memory_bytes": MEMORY,
    "disk_bytes": DISK,
    "file_bytes": FILE,
    "files": FILES,
    "processes": 40,
    "tmp_bytes": 160 * MIB,
    "seconds": 60.0,
}
HOLD_SECONDS = 8.0
"""How long what is over a limit has to last to count as a way around it: several looks, on a busy machine."""
START = f"""
import array, ctypes, errno, fcntl, mmap, signal, socket, time
MIB, MEMORY, DISK, FILE = {MIB}, {MEMORY}, {DISK}, {FILE}
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
kept = []
X86 = os.uname().machine == "x86_64"

def through(held, most):
    if held < 2 * most:
        print("stopped at", held // MIB, "MiB", flush=True)
        sys.exit(0)
    end = time.monotonic() + {HOLD_SECONDS}
    while time.monotonic() < end:
        time.sleep(0.01)
    print("through", flush=True)

def in_children(work, number=4):
    for _ in range(number):
        if os.fork() == 0:
            kept.append(work())
            while True:
                time.sleep(1)

def shared(size, how=0x21, fd=-1):
    place = libc.mmap(None, ctypes.c_size_t(size), 3, how, fd, ctypes.c_long(0))
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    return place

def filled(path, size=FILE - 4096, flags=os.O_CREAT | os.O_RDWR, **options):
    file = os.open(path, flags, 0o600, **options)
    for _ in range(size // 65536):
        os.write(file, b"x" * 65536)
    return file

def fill(one):
    one.setblocking(False)
    held = 0
    try:
        while True:
            held += one.send(b"x" * 4096)
    except BlockingIOError:
        return held
"""
DONTNEED = """
held = 0
while held < 3 * MEMORY:
    place = shared(4 * MIB)
    ctypes.memset(place, 1, 4 * MIB)
    libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(4 * MIB), 4)
    held += 4 * MIB
through(held, MEMORY)
"""
UNMAPPED = """
held, fd = 0, FD
while held < 3 * MEMORY:
    place = shared(4 * MIB, HOW, fd)
    ctypes.memset(place, 1, 4 * MIB)
    libc.munmap(ctypes.c_void_p(place + 4096), ctypes.c_size_t(4 * MIB - 4096))
    held += 4 * MIB
through(held, MEMORY)
"""
PAIRS = """
def work():
    pairs = []
    try:
        while len(pairs) < 480:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            fill(ours)
            if CLOSES:
                ours.close()
            pairs.append((ours, theirs))
    except OSError:
        pass
    return pairs
in_children(work, 8)
through(8 * 480 * 200 * 1024, MEMORY)
"""
SENT_ON = """
def work():
    def inner():
        ours, theirs = socket.socketpair()
        fill(ours)
        ours.close()
        return theirs
    outer, held = socket.socketpair(), []
    while len(held) < 480:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            for _ in range(8):
                one = inner()
                socket.send_fds(ours, [b"x"], [one.fileno()])
                one.close()
        except OSError:
            pass
        held.append((ours, theirs))
    return held
in_children(work, 8)
through(8 * 1000 * 200 * 1024, MEMORY)
"""
PIPES = """
held = 0
def work():
    pipes = []
    try:
        while True:
            read, write = os.pipe()
            try:
                fcntl.fcntl(write, 1031, MIB)
            except OSError:
                pass
            os.set_blocking(write, False)
            try:
                while True:
                    os.write(write, b"x" * 4096)
            except BlockingIOError:
                pipes.append((read, write))
    except OSError:
        return pipes
in_children(work, 30)
through(64 * MIB + 30 * 500 * 8192, MEMORY // 2)
"""
PAGE_TABLES = """
size = 200 << 30
place = shared(size, 0x4022)
libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(size), 1)
libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), 15)
for offset in range(0, size, 2 * MIB):
    ctypes.c_char.from_address(place + offset).value
through(size // (2 * MIB) * 4096, MEMORY)
""".replace("shared(size, 0x4022)", "libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, ctypes.c_long(0))")
IN_TMP = """
held = 0
for folder in ("/tmp", "/dev/shm"):
    for number in range(19):
        kept.append(filled(f"{folder}/{number}"))
        os.unlink(f"{folder}/{number}")
        held += FILE
through(held, MEMORY)
"""
MANY_IN_TMP = """
for number in range(20_000):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT))
through(MEMORY * 2, MEMORY)
"""
PARTS = """
in_children(lambda: bytearray(b"x") * (64 * MIB), 6)
through(3 * MEMORY, MEMORY)
"""
MEMORY_WAYS = {
    "shared and not needed": DONTNEED,
    "shared and unmapped": UNMAPPED.replace("FD", "-1").replace("HOW", "0x21"),
    "zeroes, shared and unmapped": UNMAPPED.replace("FD", 'os.open("/dev/zero", os.O_RDWR)').replace(
        "HOW", "1"
    ),
    "socket buffers": PAIRS.replace("CLOSES", "False"),
    "socket buffers of closed senders": PAIRS.replace("CLOSES", "True"),
    "sockets in sockets": SENT_ON,
    "page tables": PAGE_TABLES,
    "parts": PARTS,
}
TMP_WAYS = {"files in memory": (IN_TMP, "memory"), "many files in memory": (MANY_IN_TMP, "files")}
"""With namespaces; without, /tmp is a folder of the workspace."""

UNLINKED = """
for number in range(8):
    kept.append(filled(f"{number}"))
    os.unlink(f"{number}")
through(8 * FILE, DISK)
"""
MAPPED = """
for number in range(8):
    file = filled(f"{number}")
    os.unlink(f"{number}")
    kept.append(mmap.mmap(file, FILE // 2))
    os.close(file)
through(8 * FILE, DISK)
"""
REPLACED = """
for number in range(8):
    kept.append(filled("new"))
    os.rename("new", "old")
through(8 * FILE, DISK)
"""
UNNAMED = """
for number in range(8):
    kept.append(filled(".", flags=os.O_RDWR | os.O_TMPFILE))
through(8 * FILE, DISK)
"""
LONG_PATHS = """
at = os.open(".", os.O_RDONLY)
for _ in range(20):
    os.mkdir("n" * 250, dir_fd=at)
    at = os.open("n" * 250, os.O_RDONLY, dir_fd=at)
for number in range(8):
    os.close(filled(f"{number}", dir_fd=at))
through(8 * FILE, DISK)
"""
CLOSED = """
os.mkdir("closed", 0o300)
for number in range(8):
    os.close(filled(f"closed/{number}"))
    try:
        os.chmod("closed", 0)
        os.chmod("closed", 0o300)
    except OSError:
        pass
try:
    os.chmod("closed", 0)
except OSError:
    pass
through(8 * FILE, DISK)
"""
QUEUED = """
for number in range(96):
    file = filled(f"{number}", FILE // 8)
    os.unlink(f"{number}")
    if number % 4 == 0:
        ours, theirs = socket.socketpair()
        kept.append((ours, theirs))
    socket.send_fds(kept[-1][0], [b"x"], [file])
    os.close(file)
through(96 * FILE // 8, DISK)
"""
QUEUED_IN_QUEUED = """
outer, sender = socket.socketpair(), None
kept.append(outer)
ours, theirs = socket.socketpair()
for number in range(96):
    file = filled(f"{number}", FILE // 8)
    os.unlink(f"{number}")
    socket.send_fds(ours, [b"x"], [file])
    os.close(file)
socket.send_fds(outer[0], [b"x"], [theirs.fileno()])
theirs.close()
ours.close()
through(96 * FILE // 8, DISK)
"""
AHEAD = """
for number in range(8):
    file = os.open(f"{number}", os.O_CREAT | os.O_RDWR)
    if libc.fallocate(file, 1, ctypes.c_long(0), ctypes.c_long(FILE - 4096)) != 0:
        filled(f"{number}")
through(8 * FILE, DISK)
"""
UNREADABLE = """
shutil.copyfile(sys.executable, "python")
os.chmod("python", 0o700)
"""
FILES_WAYS = """
for number in range(2_000):
    os.WHAT
through(2 * DISK, DISK)
"""
DISK_WAYS = {
    "without a name": (UNLINKED, "disk"),
    "without a name, mapped": (MAPPED, "disk"),
    "replaced": (REPLACED, "disk"),
    "never had a name": (UNNAMED, "disk"),
    "long paths": (LONG_PATHS, "disk"),
    "closed folder": (CLOSED, "disk"),
    "descriptors on their way": (QUEUED, "files"),
    "allocated ahead": (AHEAD, "disk"),
    "empty files": (FILES_WAYS.replace("WHAT", 'close(os.open(f"{number}", os.O_CREAT))'), "files"),
    "folders": (FILES_WAYS.replace("WHAT", 'mkdir(f"{number:0250}")'), "files"),
    "links": (FILES_WAYS.replace("WHAT", 'symlink("x" * 4000, f"{number}")'), "disk or files"),
}


def tried(mechanism: str, user: str, how: str, folder: Path, ways: Mapping[str, str]) -> dict[str, str]:
    """Of each way the limit that ended it, or what it printed."""
    options = ["without-groups"] if how == "looks" else []
    programs = [START + program for program in ways.values()]
    said = ended_each(mechanism, user, folder, programs, json.dumps(LIMITS), *options)
    return {
        way: str(one["limit"] or f"{one['output']} {one['errors'][-500:]}".strip())
        for way, one in zip(ways, said, strict=True)
    }


on_each = pytest.mark.parametrize(("mechanism", "user", "how"), WAYS)


@on_each
def test_memory_counts_however_it_is_held(mechanism: str, user: str, how: str, folder: Path) -> None:
    found = tried(mechanism, user, how, folder, MEMORY_WAYS)
    refused = {way for way, said in found.items() if "stopped at" in said or "ENOMEM" in said}
    assert {way: said for way, said in found.items() if said != "memory" and way not in refused} == {}


@on_each
def test_pipes_are_bounded(mechanism: str, user: str, how: str, folder: Path) -> None:
    assert "through" not in tried(mechanism, user, how, folder, {"pipes": PIPES})["pipes"]


@pytest.mark.parametrize(("mechanism", "user", "how"), [one for one in WAYS if one[0] == "bubblewrap"])
def test_files_in_memory_count(mechanism: str, user: str, how: str, folder: Path) -> None:
    found = tried(mechanism, user, how, folder, {way: program for way, (program, _) in TMP_WAYS.items()})
    assert found == {way: limit for way, (_, limit) in TMP_WAYS.items()}


@on_each
def test_disk_counts_however_it_is_held(mechanism: str, user: str, how: str, folder: Path) -> None:
    found = tried(mechanism, user, how, folder, {way: program for way, (program, _) in DISK_WAYS.items()})
    limits = {way: limit.split(" or ") for way, (_, limit) in DISK_WAYS.items()}
    assert {way: said for way, said in found.items() if said not in limits[way]} == {}


HONEST = {
    "sparse files": "[os.truncate(os.open(f'{n}', os.O_CREAT | os.O_RDWR), FILE - 1) for n in range(20)]",
    "hard links": "os.close(filled('file'))\n[os.link('file', f'{n}') for n in range(20)]",
    "processes that nobody reaps": (
        "for n in range(5):\n    kept.append(filled(f'{n}', MIB))\n    os.unlink(f'{n}')\n"
        "    if os.fork() == 0: os._exit(0)"
    ),
    "shared memory that comes and goes": (
        "small = shared(4096)\nfor n in range(60):\n    place = shared(8 * MIB)\n"
        "    ctypes.memset(place, 1, 8 * MIB)\n"
        "    libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(8 * MIB))"
    ),
    "memory that a child shares until it executes": (
        "kept.append(bytearray(b'x') * (80 * MIB))\n"
        "for n in range(300): subprocess.run(['/bin/true'], check=True)"
    ),
    "memory that a child shares for long": (
        "kept.append(bytearray(b'x') * (80 * MIB))\n"
        "stack = ctypes.create_string_buffer(1 << 16)\n"
        "top = (ctypes.addressof(stack) + (1 << 16) - 64) & ~15\n"
        "vfork = 0x4000 | 0x100 | signal.SIGCHLD  # as before a child executes a program\n"
        "child = libc.clone(libc.sleep, ctypes.c_void_p(top), vfork, ctypes.c_void_p(3))\n"
        "assert child > 0\n"
        "os.waitpid(child, 0)"
    ),
    "files that come and go": (
        "for n in range(30):\n    file = filled('file', 4 * MIB)\n    os.unlink('file')\n    os.close(file)"
    ),
    "many sockets that hold nothing": "kept += [socket.socketpair() for n in range(400)]",
    "descriptors that are received": (
        "ours, theirs = socket.socketpair()\nfor n in range(300):\n"
        "    socket.send_fds(ours, [b'x'], [0])\n    os.close(socket.recv_fds(theirs, 1, 1)[1][0])"
    ),
}


@on_each
def test_what_stays_within_its_limits_is_not_stopped(
    mechanism: str, user: str, how: str, folder: Path
) -> None:
    ways = {name: f"{work}\ntime.sleep(1)\nprint('done')" for name, work in HONEST.items()}
    assert tried(mechanism, user, how, folder, ways) == dict.fromkeys(HONEST, "done")
