"""The processes of a sandbox: the filter holds for each, and none changes the memory of another."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from support.hostile_runs import combinations
from support.sandbox_programs import look

pytestmark = [
    pytest.mark.gate("system-calls"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
PLACES = combinations() if sys.platform == "linux" else []
on_each = pytest.mark.parametrize(("mechanism", "user"), PLACES)
with_namespaces = pytest.mark.parametrize("user", [user for one, user in PLACES if one == "bubblewrap"])


ATTACKS = r"""
import ctypes, errno, signal
libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"

class Vector(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("length", ctypes.c_size_t))

def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

def syscall(number, *arguments):
    return checked(libc.syscall(ctypes.c_long(number), *arguments))

# another process of the sandbox, that says where it keeps something
CODE = '''
import ctypes, sys
kept = ctypes.create_string_buffer(b"its own", 64)
print(ctypes.addressof(kept), flush=True)
sys.stdin.read()
print(kept.value.decode(), flush=True)
'''
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
sibling = subprocess.Popen([sys.executable, "-I", "-S", "-c", CODE], **pipes)
address = int(sibling.stdout.readline())

def mapped(pid):
    for line in open(f"/proc/{pid}/maps"):
        span, rights = line.split()[:2]
        if rights.startswith("rw"):
            return int(span.partition("-")[0], 16)

def write_mem(pid):
    where = address if pid == sibling.pid else mapped(pid)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as file:
        file.seek(where)
        held = file.read(8)
        file.seek(where)
        file.write(b"changed\0" if pid == sibling.pid else held)

def open_mem(pid):
    os.close(os.open(f"/proc/{pid}/mem", os.O_WRONLY))

def attach(pid):
    checked(libc.ptrace(16, pid, 0, 0))
    os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)

def seize(pid):
    checked(libc.ptrace(0x4206, pid, 0, 0))
    libc.ptrace(17, pid, 0, 0)

def vectors(pid, number):
    here = ctypes.create_string_buffer(b"changed\0", 8)
    mine, theirs = Vector(ctypes.addressof(here), 8), Vector(address, 8)
    one, none = ctypes.c_long(1), ctypes.c_long(0)
    syscall(number, pid, ctypes.byref(mine), one, ctypes.byref(theirs), one, none)

def read_vectors(pid):
    vectors(pid, 310 if X86 else 270)

def write_vectors(pid):
    vectors(pid, 311 if X86 else 271)

def take_descriptor(pid):
    syscall(438, os.pidfd_open(pid), 0, 0)

def compare(pid):
    syscall(312 if X86 else 272, pid, os.getpid(), 0, 0, 0)

def advise(pid):
    theirs = Vector(address & ~4095, 4096)
    syscall(440, os.pidfd_open(pid), ctypes.byref(theirs), ctypes.c_long(1), 4, 0)

def open_descriptor(pid):
    return os.listdir(f"/proc/{pid}/fd") and os.readlink(f"/proc/{pid}/fd/0")

def read_mem(pid):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(mapped(pid))
        file.read(8)

def environment(pid):
    return open(f"/proc/{pid}/environ", "rb").read()

def root(pid):
    return os.listdir(f"/proc/{pid}/root/")

CHANGING = (write_mem, open_mem, attach, seize, read_vectors, write_vectors, take_descriptor, compare, advise)
OF_THE_FIRST = (*CHANGING, open_descriptor, read_mem, environment, root)
found = {}
def attack(name, pid, attacks):
    for one in attacks:
        try:
            one(pid)
        except (OSError, ValueError, TypeError) as error:
            continue
        found.setdefault(name, []).append(one.__name__)
attack("sibling", sibling.pid, CHANGING)
attack("parent", os.getppid(), CHANGING)
attack("first", 1, OF_THE_FIRST)
sibling.stdin.close()
said = sibling.stdout.read().decode().strip()
print(json.dumps({"found": found, "said": said}))
"""


@on_each
def test_no_process_changes_the_memory_of_another_or_takes_what_the_first_one_has(
    mechanism: str, user: str, folder: Path
) -> None:
    assert look(mechanism, user, folder, ATTACKS) == {"found": {}, "said": "its own"}


@with_namespaces
def test_the_filter_holds_for_every_process_of_the_sandbox(user: str, folder: Path) -> None:
    program = """
child = subprocess.Popen(["sleep", "60"])
found = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    lines = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    found[lines["Name"].strip()] = [lines["Seccomp"].strip(), lines["Seccomp_filters"].strip()]
child.kill()
own = open("/proc/self/status").read()
print(json.dumps({"found": list(found.values()), "pids": len(found), "own": own}))
"""
    said = look("bubblewrap", user, folder, program)
    own = dict(line.split(":", 1) for line in said["own"].splitlines())
    expected = [own["Seccomp"].strip(), own["Seccomp_filters"].strip()]
    assert expected[0] == "2"  # SECCOMP_MODE_FILTER
    assert said["pids"] == 3  # the first process, this one, its child
    assert said["found"] == [expected] * 3


@on_each
def test_calls_that_no_table_knows_are_answered_as_by_a_kernel_that_lacks_them(
    mechanism: str, user: str, folder: Path
) -> None:
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def answer(number, *arguments):
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        result = libc.syscall(ctypes.c_long(number), *arguments)
        os._exit(ctypes.get_errno() if result < 0 else 255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
said = {}
numbers = [470, 471, 480, 512, 600, 1000, 4095, 0x3fffffff]
if os.uname().machine == "x86_64":  # and those of x32, a second set of calls
    numbers += [400, 423, 0x40000000, 0x40000000 + 39, 0x40000000 + 520]
for number in numbers:
    said[number] = answer(number, *[ctypes.c_long(-1)] * 6)
# calls that recent kernels have, and no list names: cachestat, statmount, lsm_list_modules, file_getattr
held, size = ctypes.create_string_buffer(512), ctypes.c_long(512)
said["cachestat"] = answer(451, 0, held, held, 0)
mount = (ctypes.c_uint32 * 2)(24, 0), (ctypes.c_uint64 * 2)(1, 1)
request = ctypes.create_string_buffer(b"".join(map(bytes, mount)))
said["statmount"] = answer(457, request, held, size, 0)
said["lsm_list_modules"] = answer(461, held, ctypes.byref(ctypes.c_uint32(512)), 0)
said["file_getattr"] = answer(468, ctypes.c_long(-100), b".", held, ctypes.c_long(24), 0)
print(json.dumps(said))
"""
    said = look(mechanism, user, folder, program)
    assert {name: answer for name, answer in said.items() if answer != errno.ENOSYS} == {}


@pytest.mark.skipif("landlock" not in {one for one, _ in PLACES}, reason="no Landlock here")
@pytest.mark.parametrize("user", sorted({user for _, user in PLACES}))
def test_shared_memory_of_other_programs_of_the_user_is_not_reached_without_namespaces(
    user: str, folder: Path
) -> None:
    """Segments of System V have numbers that every program of the user may try."""
    made = subprocess.run(["ipcmk", "-M", "4096", "-p", "0666"], capture_output=True, text=True, check=True)
    segment = made.stdout.rsplit(maxsplit=1)[1]
    program = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
found = libc.shmat({segment}, None, 0)
print(json.dumps([found == ctypes.c_void_p(-1).value, ctypes.get_errno()]))
"""
    try:
        assert look("landlock", user, folder, program) == [True, errno.EPERM]
    finally:
        subprocess.run(["ipcrm", "-m", segment], check=True)


@on_each
def test_how_a_command_ended_is_known_exactly(mechanism: str, user: str, folder: Path) -> None:
    """A status above 128 is no signal, and one that ends at once is not missed."""
    assert look(mechanism, user, folder, "print('[]')", status=0) == []
    look(mechanism, user, folder, "os._exit(137)", status=137)
    look(mechanism, user, folder, "os.kill(os.getpid(), 9)", status=-9)
