"""What programs expect of a machine, on every mechanism: a user, `localhost`, shared memory, processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from support.hostile_runs import combinations
from support.sandbox_programs import ended, look

pytestmark = [
    pytest.mark.gate("surroundings"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
PLACES = combinations() if sys.platform == "linux" else []
on_each = pytest.mark.parametrize(("mechanism", "user"), PLACES)
with_namespaces = pytest.mark.parametrize("user", [user for one, user in PLACES if one == "bubblewrap"])

USER = """
import getpass, grp, pwd, socket, tempfile
entry = pwd.getpwuid(os.getuid())
for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
    os.environ.pop(name, None)  # programs that do not ask the environment
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
print(json.dumps({
    "user": getpass.getuser(),
    "group": grp.getgrgid(os.getgid()).gr_name,
    "id": subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip(),
    "home": [entry.pw_dir, os.path.isabs(os.path.expanduser("~"))],
    "localhost": sorted({a[4][0] for a in socket.getaddrinfo("localhost", 80, socket.AF_INET)}),
    "own name": socket.gethostbyname(socket.gethostname()),
    "users": [len(open(f"/etc/{name}").read().splitlines()) for name in ("passwd", "group")],
}))
"""
SHARED = """
from multiprocessing import shared_memory
import errno, multiprocessing
made = shared_memory.SharedMemory(name="mine", create=True, size=100_000)
made.buf[0] = 7
child = os.fork()
if child == 0:
    again = shared_memory.SharedMemory(name="mine")
    again.buf[1] = again.buf[0] + 1
    os._exit(0)
os.waitpid(child, 0)
said = [made.buf[0], made.buf[1]]
try:
    shared_memory.SharedMemory(name="mine", create=True, size=1)
except FileExistsError:
    said.append("is there")
made.close()
made.unlink()
try:
    shared_memory.SharedMemory(name="mine")
except FileNotFoundError:
    said.append("is gone")
lock = multiprocessing.Semaphore(2)
said += [lock.acquire(), lock.acquire(), lock.acquire(block=False)]
print(json.dumps(said))
"""
WORK = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
def square(number):
    return number * number
def put(queue):
    queue.put("x" * 100_000)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(square, range(4)))
    queue = context.Queue()
    process = context.Process(target=put, args=(queue,))
    process.start()
    print(len(queue.get(timeout=60)))
    process.join(60)
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        print(list(executor.map(square, [5])))
    if sys.argv[2:]:
        with context.Manager() as manager:
            print(list(manager.list([1])))
"""
RUN = f"""
with open("work.py", "w") as file:
    file.write({WORK!r})
for arguments in ARGUMENTS:
    made = subprocess.run([sys.executable, "work.py", *arguments], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    print(json.dumps(made.stdout.split("\\n")), file=sys.stderr)
"""


@on_each
def test_there_is_a_user_and_a_localhost(mechanism: str, user: str, folder: Path) -> None:
    said = look(mechanism, user, folder, USER)
    home = said.pop("home")
    assert said == {
        "user": "sandbox",
        "group": "sandbox",
        "id": "sandbox",
        "localhost": ["127.0.0.1"],
        "own name": "127.0.0.1",
        "users": [1, 1],  # and none of the machine's
    }
    assert home == ["/", True]


@on_each
def test_memory_and_semaphores_are_shared(mechanism: str, user: str, folder: Path) -> None:
    assert look(mechanism, user, folder, SHARED) == [7, 8, "is there", "is gone", True, True, False]
    left = [path.name for path in (folder / "own").rglob("*")]
    assert left in ([], [".tmp"]), "it goes with the sandbox"


@on_each
def test_programs_divide_their_work(mechanism: str, user: str, folder: Path) -> None:
    """With namespaces by `forkserver` and managers, too, which listen on Unix sockets."""
    ways = [["fork"], ["spawn"], *([["forkserver", "manager"]] if mechanism == "bubblewrap" else [])]
    found = ended(mechanism, user, folder, RUN.replace("ARGUMENTS", repr(ways)), "unix-sockets")
    assert found["status"] == 0, found
    lines = ["[0, 1, 4, 9]", "100000", "[25]"]
    assert found["errors"].count(", ".join(f'"{line}"' for line in lines)) == len(ways)


@on_each
def test_errors_are_written_by_name(mechanism: str, user: str, folder: Path) -> None:
    program = "open('/proc/self/fd/2', 'w').write('by name')"
    assert ended(mechanism, user, folder, program)["errors"] == "by name"


@on_each
def test_what_is_refused_in_a_folder_to_read_is_told(mechanism: str, user: str, folder: Path) -> None:
    (folder / "readable").mkdir()
    (folder / "readable" / "code.py").write_text("")
    place = folder / "readable"
    program = f"""
for change in (lambda: open("{place}/code.py", "a"), lambda: open("{place}/new", "w"),
               lambda: os.mkdir("{place}/made"), lambda: os.unlink("{place}/code.py")):
    try:
        change()
        print("no")
    except OSError:
        pass
"""
    found: dict[str, Any] = ended(mechanism, user, folder, program)
    assert found["output"] == ""
    for told in ("writing {}/code.py", "writing {}/new", "making the folder {}/made", "removing {}/code.py"):
        line = told.format(place)
        assert any(one.startswith(line) for one in found["told"]), (line, found["told"])
