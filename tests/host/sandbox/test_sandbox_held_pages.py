"""Pages that stay occupied when hardly anything of them is used, and what a user has once.

A page of two megabytes stays whole while a part of it is mapped, or while a pipe or a socket holds a byte of
it, and no look tells. With control groups it counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.hostile_runs import combinations
from support.sandbox_programs import ended

pytestmark = [
    pytest.mark.gate("sandbox-memory"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
on_each = pytest.mark.parametrize(("mechanism", "user"), combinations() if sys.platform == "linux" else [])
HUGE_PAGES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
MIB = 1 << 20
place = libc.mmap(None, ctypes.c_size_t(4 * MIB), 3, 0x22, -1, ctypes.c_long(0))
start = (place + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
turned_on = libc.prctl(41, 0, 0, 0, 0)
for advice in (14, None, 25):  # use huge pages; touch; make one now
    if advice is None:
        ctypes.memset(start, 1, 2 * MIB)
    else:
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(2 * MIB), advice)
lines = open("/proc/self/smaps_rollup").read().splitlines()
huge = next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))
print(json.dumps([turned_on, huge]))
"""
IN_PIPES = """
import ctypes, errno, fcntl, socket
libc = ctypes.CDLL(None, use_errno=True)

def tried(call, *arguments):
    ctypes.set_errno(0)
    libc.syscall(call, *arguments)
    return errno.errorcode.get(ctypes.get_errno(), "done")

X86 = os.uname().machine == "x86_64"
VMSPLICE, SPLICE, SENDFILE = (278, 275, 40) if X86 else (75, 76, 71)
read, write = os.pipe()
ours, theirs = socket.socketpair()
file = os.open("file", os.O_CREAT | os.O_RDWR)
os.write(file, b"x" * 100)
os.lseek(file, 0, os.SEEK_SET)
byte = ctypes.create_string_buffer(b"x")
pages = (ctypes.c_size_t * 2)(ctypes.addressof(byte), 1)
said = {
    "vmsplice": tried(VMSPLICE, write, pages, 1, 0),
    "splice": tried(SPLICE, file, None, write, None, 1, 0),
    "sendfile": tried(SENDFILE, ours.fileno(), file, None, 1),
}
try:
    said["larger"] = str(fcntl.fcntl(write, 1031, 1 << 20))
except OSError as error:
    said["larger"] = errno.errorcode[error.errno]
shutil.copyfile("file", "copy")
said["copy"] = len(open("copy").read())
print(json.dumps(said))
"""
ONCE = """
import ctypes, errno, signal
libc = ctypes.CDLL(None, use_errno=True)
context = ctypes.c_ulong(0)
setup = 206 if os.uname().machine == "x86_64" else 0
done = libc.syscall(setup, 60000, ctypes.byref(context))
waits = errno.errorcode.get(ctypes.get_errno()) if done else "done"
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
queued = 0
while queued < 100_000 and libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(0)) == 0:
    queued += 1
print(json.dumps([waits, queued <= 4096]))
"""


def said(mechanism: str, user: str, folder: Path, program: str, *options: str) -> object:
    """What the program printed."""
    found = ended(mechanism, user, folder, program, *options)
    assert found["status"] == 0, found
    return json.loads(found["output"])


@on_each
def test_no_huge_page_is_left_of_which_little_counts(mechanism: str, user: str, folder: Path) -> None:
    assert said(mechanism, user, folder, HUGE_PAGES, "without-groups") == [-1, 0]


@on_each
def test_pipes_and_sockets_hold_copies(mechanism: str, user: str, folder: Path) -> None:
    assert said(mechanism, user, folder, IN_PIPES, "without-groups") == {
        "vmsplice": "EINVAL",
        "splice": "EINVAL",
        "sendfile": "EINVAL",
        "larger": "EPERM",
        "copy": 100,
    }


@on_each
def test_what_user_and_machine_have_once_is_left_to_others(mechanism: str, user: str, folder: Path) -> None:
    assert said(mechanism, user, folder, ONCE) == ["ENOSYS", True]
