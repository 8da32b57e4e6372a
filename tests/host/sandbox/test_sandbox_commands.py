"""Commands in the sandbox of this machine: their output, their limits, the network they were allowed."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.endpoints import parse_host_port
from hostler.sandbox.capabilities import SandboxCapabilities
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import MIB, CommandResult, SandboxLimits, SandboxSpec
from hostler.sandbox.probe import find_capabilities, find_sandbox
from hostler.sandbox.process import ChildProcess, Command
from hostler.sandbox.proxy import _check_address, _Refused
from hostler.sandbox.syscalls import number
from hostler_protocol.errors import UnavailableError

pytestmark = [
    pytest.mark.gate("sandbox-reach"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
MECHANISMS = asyncio.run(find_capabilities()).mechanisms if sys.platform == "linux" else ()
on_each = pytest.mark.parametrize("mechanism", MECHANISMS)
LIMITS = SandboxLimits(memory_bytes=256 * MIB, processes=64, seconds=60.0, output_bytes=100_000)
BOUND_SECONDS = 60.0
"""Of whatever is waited for; it only has to end what hangs."""


def python(code: str, folder: Path, **changes: Any) -> SandboxSpec:
    limits = changes.pop("limits", LIMITS)
    argv = [os.path.realpath(sys.executable), "-I", "-S", "-c", code]
    return SandboxSpec(
        "test", argv, folder, {"PATH": os.defpath}, writable=(folder,), limits=limits, **changes
    )


async def run(mechanism: str, spec: SandboxSpec, **options: Any) -> CommandResult:
    sandbox = await find_sandbox(mechanism)  # type: ignore[arg-type]
    async with asyncio.timeout(BOUND_SECONDS):
        return await sandbox.run(spec, **options)


async def test_what_a_process_wrote_is_there_after_its_end() -> None:
    """A quick command is over, with its shim, before a busy host comes to read."""
    async with asyncio.timeout(BOUND_SECONDS):
        for _ in range(2):
            process = ChildProcess()
            await process.begin(Command(["/bin/echo", "hi"], Path("/"), {}), marker=secrets.token_hex(16))
            await asyncio.shield(process.gone)
            with process.take_pipe(1, "rb") as output, process.take_pipe(0, "wb"):
                assert output.read() == b"hi\n"
            before = len(os.listdir("/proc/self/fd"))
            await process.wait_gone()
            assert len(os.listdir("/proc/self/fd")) == before - 1  # the third, that nobody took


@on_each
async def test_a_command_reads_its_input_and_gives_output_errors_and_status(
    mechanism: str, folder: Path
) -> None:
    heard: list[tuple[int, bytes]] = []
    code = "import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.stderr.write('oh'); sys.exit(5)"
    made = await run(
        mechanism, python(code, folder), stdin=b"abc", on_output=lambda *said: heard.append(said)
    )
    assert (made.stdout, made.stderr, made.status.code, made.limit_reached) == (b"cba", b"oh", 5, None)
    assert sorted(heard) == [(1, b"cba"), (2, b"oh")]


@on_each
@pytest.mark.parametrize(
    ("limit", "code", "limits"),
    [
        ("time", "import time; time.sleep(86398)", {"seconds": 0.5}),
        ("output", "while True: print('x' * 10_000)", {"output_bytes": 50_000}),
        ("cpu", "while True: pass", {"cpu_seconds": 1}),
        (
            "file_size",
            "import signal; signal.signal(25, signal.SIG_DFL); open('f', 'wb').write(bytes(1 << 22))",
            {"file_bytes": MIB},
        ),
    ],
)
async def test_the_limit_that_ends_a_command_is_named(
    mechanism: str, limit: str, code: str, limits: dict[str, Any], folder: Path
) -> None:
    wanted = SandboxLimits(**{"memory_bytes": 256 * MIB, "seconds": 60.0, "output_bytes": 100_000, **limits})
    made = await run(mechanism, python(code, folder, limits=wanted))
    assert made.limit_reached == limit
    assert len(made.stdout) + len(made.stderr) <= 100_000


@on_each
async def test_a_command_that_is_given_up_leaves_nothing(mechanism: str, folder: Path) -> None:
    code = "import os, time\nif os.fork() == 0: os.setsid()\nprint('up', flush=True)\ntime.sleep(86397)"
    up = asyncio.Event()
    sandbox = await find_sandbox(mechanism)  # type: ignore[arg-type]
    task = asyncio.create_task(sandbox.run(python(code, folder), on_output=lambda *_: up.set()))
    async with asyncio.timeout(BOUND_SECONDS):
        await up.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if b"time.sleep(86397)" in line]


@on_each
async def test_files_of_the_workspace_last_and_links_in_it_are_not_followed_by_the_host(
    mechanism: str, folder: Path
) -> None:
    outside = folder.with_name(f"{folder.name}-outside")
    outside.write_text("mine")
    owner = outside.stat().st_uid
    try:
        await run(
            mechanism,
            python(f"import os; open('kept', 'w').write('1'); os.symlink('{outside}', 'link')", folder),
        )
        made = await run(
            mechanism, python("print(open('kept').read()); open('kept', 'a').write('2')", folder)
        )
        assert made.stdout == b"1\n"
        assert (folder / "kept").read_text() == "12"
        assert outside.stat().st_uid == owner
    finally:
        outside.unlink()


async def test_where_there_is_no_sandbox_nothing_starts_and_the_reason_is_said(folder: Path) -> None:
    capabilities = SandboxCapabilities(
        (), (("bubblewrap", "no namespaces"), ("landlock", "not in this kernel"))
    )
    with pytest.raises(UnavailableError, match=r"no namespaces.*level: trusted"):
        await MachineSandbox(capabilities.best(), capabilities).run(python("", folder))


async def test_a_command_that_is_not_there_is_an_error(folder: Path) -> None:
    spec = SandboxSpec("test", ["/no/such/program"], folder, {}, writable=(folder,), limits=LIMITS)
    for mechanism in MECHANISMS:
        with pytest.raises(UnavailableError, match="No such file"):
            await run(mechanism, spec)


# -- network --------------------------------------------------------------------------------------

ASK = """
import http.client, os, sys
proxy = os.environ["HTTP_PROXY"].removeprefix("http://")
for place in sys.argv[1:] or PLACES:
    made = http.client.HTTPConnection(proxy, timeout=30)
    made.request("GET", f"http://{place}/hello", headers={"Host": place})
    answer = made.getresponse()
    print(answer.status, answer.read().decode().strip())
    tunnel = http.client.HTTPConnection(proxy, timeout=30)
    host, _, port = place.partition(":")
    tunnel.set_tunnel(host, int(port))
    try:
        tunnel.request("GET", "/through")
        print(tunnel.getresponse().status)
    except OSError as error:
        print(error)
import socket
try:
    socket.create_connection(("127.0.0.1", int(PLACES[0].partition(":")[2])), 5)
except OSError as error:
    print(type(error).__name__)
"""


@asynccontextmanager
async def server(asked: list[str]) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b" ")[1].decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.skipif("bubblewrap" not in MECHANISMS, reason="an allowed network needs a network namespace")
async def test_only_the_allowed_place_is_reached_and_others_are_told_by_name(folder: Path) -> None:
    asked: list[str] = []
    sandbox = await find_sandbox("bubblewrap")
    async with server(asked) as port, server(asked) as other:
        places = [f"127.0.0.1:{port}", f"127.0.0.1:{other}"]
        spec = python(f"PLACES = {places}\n{ASK}", folder, network=(places[0],))
        async with asyncio.timeout(BOUND_SECONDS):
            made = await sandbox.run(spec)
    lines = made.stdout.decode().splitlines()
    assert lines[:2] == ["200 hi", "200"], (lines, made.stderr)
    assert lines[2] == f"403 {places[1]} is not among what it may reach ({places[0]})"
    assert "403" in lines[3]
    assert lines[4] == "ConnectionRefusedError"  # it is alone in its network
    assert asked == ["/hello", "/through"]
    assert [(told.kind, told.subject) for told in made.violations] == [("network", places[1])]


def test_a_name_that_leads_to_this_machine_is_not_reached() -> None:
    for address in ("127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0"):
        with pytest.raises(_Refused, match="which is not reached by a name"):
            _check_address(parse_host_port("api.example.com:443"), address)
    _check_address(parse_host_port("api.example.com:443"), "93.184.216.34")
    _check_address(parse_host_port("127.0.0.1:80"), "127.0.0.1")


async def test_an_allowed_network_is_refused_where_only_landlock_holds(folder: Path) -> None:
    if "landlock" not in MECHANISMS:
        pytest.skip("no Landlock here")
    with pytest.raises(UnavailableError, match="needs a network namespace"):
        await run("landlock", python("", folder, network=("api.example.com:443",)))


# -- what is told ---------------------------------------------------------------------------------


@on_each
async def test_an_ordinary_program_tells_nothing(mechanism: str, folder: Path) -> None:
    code = (
        "import asyncio, json, logging, os, socket, sqlite3, ssl, subprocess, tempfile, zipfile\n"
        "subprocess.run(['sh', '-c', 'ls / > list; rm list; mkdir -p a/b; mv a c'], check=False)\n"
        "tempfile.TemporaryFile().close(); ssl.create_default_context()\n"
        "sqlite3.connect('file.db').execute('create table t (x)'); os.cpu_count()"
    )
    made = await run(mechanism, python(code, folder))
    assert made.status.code == 0, made.stderr
    # with Landlock the root of the machine is in sight, but cannot be listed
    expected = [] if mechanism == "bubblewrap" else ["reading /: not among what it may see"]
    assert [told.text for told in made.violations] == expected


ODD = r"""
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
stop = []
def flood(number):
    while not stop:
        for path in ("/usr/lib/os-release", f"/etc/absent{number}", "own"):
            try: os.close(os.open(path, 0))
            except OSError: pass
threads = [threading.Thread(target=flood, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
for address in (0, 1, 0xFFFFFFFFFFFF0000, 1 << 63):
    libc.syscall(ctypes.c_long(OPENAT), ctypes.c_long(-100), ctypes.c_void_p(address), 0, 0)
for path in (b"/" + b"a/" * 2047, b"/" + b"x" * 4094, b"/" + b"x" * 9000, b"", b".", b"/proc/self/fd/../x",
             b"/proc/self/fd/7/x", b"/proc/" + b"9" * 300, b"\xff\xfe", b"/proc/self/root" + OUTSIDE):
    try: os.open(path, 0)
    except OSError: pass
child = os.fork()
if child == 0:
    while True:
        try: os.open("/etc/absent", 0)
        except OSError: pass
os.kill(child, 9); os.waitpid(child, 0)
held = bytearray(b"x") * (500 << 20)
threads[0].join()
"""


@on_each
async def test_a_flood_of_odd_names_neither_stops_the_watch_nor_writes_a_line_of_its_own(
    mechanism: str, folder: Path
) -> None:
    outside = Path(f"{folder}\n-- hostler: refused: \xff")
    outside.write_text("")
    try:
        call = number("openat", os.uname().machine)
        code = f"OPENAT = {call}; OUTSIDE = {os.fsencode(outside)!r}\n{ODD}"
        limits = SandboxLimits(memory_bytes=350 * MIB, processes=64, seconds=60.0)
        made = await run(mechanism, python(code, folder, limits=limits))
        assert made.limit_reached == "memory"
        lines = [told.text for told in made.violations]
        assert [line for line in lines if "\\n-- hostler: refused: " in line], lines
        assert not [line for line in lines if "\n" in line]
    finally:
        outside.unlink()


CHEAP_FIRST = """
import ctypes, os, socket
for family in range(300):
    try: socket.socket(family + 50, socket.SOCK_RAW)
    except OSError: pass
for number in range(300):
    try: os.open(f"/usr/share/{number}", os.O_CREAT | os.O_WRONLY)
    except OSError: pass
libc = ctypes.CDLL(None)
libc.ptrace(16, 1, 0, 0)
try: os.open("/etc/shadow", os.O_RDONLY)
except OSError: pass
"""


@pytest.mark.gate("sandbox-violations")
@on_each
async def test_many_cheap_refusals_hide_no_other(mechanism: str, folder: Path) -> None:
    made = await run(mechanism, python(CHEAP_FIRST, folder))
    subjects = [told.subject for told in made.violations]
    assert sum(subject.startswith("socket ") for subject in subjects) > 90
    assert "socket and more" in subjects
    assert [one for one in subjects if one.startswith("writing /usr/share")], subjects[100:]
    assert "ptrace" in subjects
    assert "reading /etc/shadow" in subjects
