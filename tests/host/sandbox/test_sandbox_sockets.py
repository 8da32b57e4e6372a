"""Unix sockets: within the namespaces of a sandbox they work, to others they do not lead."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from support.hostile_runs import combinations
from support.sandbox_programs import look

pytestmark = [
    pytest.mark.gate("unix-sockets"),
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's"),
]
PLACES = combinations() if sys.platform == "linux" else []
with_namespaces = pytest.mark.parametrize("user", [user for one, user in PLACES if one == "bubblewrap"])
on_each = pytest.mark.parametrize(("mechanism", "user"), PLACES)
without_namespaces = pytest.mark.parametrize("user", [user for one, user in PLACES if one == "landlock"])


SERVERS = r"""
import array, socket
KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "sequence": socket.SOCK_SEQPACKET}
PLACES = {"tmp": "/tmp/socket", "shm": "/dev/shm/socket",
          "own": os.path.abspath("socket"), "abstract": "\0socket"}

def serve(listening, kind):
    if kind == "datagram":
        data, address = listening.recvfrom(100)
        listening.sendto(data[::-1], address)
        return
    made, _ = listening.accept()
    data, fds, _, _ = socket.recv_fds(made, 100, 1)
    os.write(fds[0], data[::-1])  # a descriptor that came along

def ask(kind, address):
    with socket.socket(socket.AF_UNIX, KINDS[kind]) as asking:
        asking.settimeout(20)
        if kind == "datagram":
            asking.bind("")  # any free abstract address
            asking.sendto(b"hello", address)
            return asking.recv(100).decode()
        asking.connect(address)
        read, write = os.pipe()
        socket.send_fds(asking, [b"hello"], [write])
        os.close(write)
        with os.fdopen(read, "rb") as file:
            return file.read().decode()

said = {}
for kind in KINDS:
    for name, place in PLACES.items():
        address = f"{place}-{kind}"
        with socket.socket(socket.AF_UNIX, KINDS[kind]) as listening:
            listening.bind(address)
            if kind != "datagram":
                listening.listen()
            child = os.fork()  # a process of its own
            if child == 0:
                serve(listening, kind)
                os._exit(0)
            said[f"{kind} {name}"] = ask(kind, address)
            os.waitpid(child, 0)
print(json.dumps(said))
"""


@with_namespaces
def test_processes_of_a_sandbox_talk_over_unix_sockets_of_every_kind(user: str, folder: Path) -> None:
    said = look("bubblewrap", user, folder, SERVERS, "unix-sockets")
    assert len(said) == 12
    assert set(said.values()) == {"olleh"}


OUTWARDS = r"""
import socket
reached = []
def attempt(name, do):
    try:
        do()
    except OSError:
        return
    reached.append(name)
def connect(kind, address):
    with socket.socket(socket.AF_UNIX, kind) as made:
        made.connect(address)
def pair(kind, address):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.sendto(b"hello", address)
for path in PATHS:
    attempt(f"stream {path}", lambda: connect(socket.SOCK_STREAM, path))
    attempt(f"datagram {path}", lambda: connect(socket.SOCK_DGRAM, path))
    attempt(f"pair {path}", lambda: pair(socket.SOCK_DGRAM, path))
print(json.dumps(reached))
"""


@on_each
@pytest.mark.parametrize("options", [(), ("unix-sockets",)])
def test_sockets_of_other_programs_are_not_reached(
    mechanism: str, user: str, options: tuple[str, ...], folder: Path
) -> None:
    """Not by an abstract name, not where it does not see; and not in folders that others use."""
    shared, hidden = folder / "readable", folder / "hidden"
    for place in (shared, hidden):
        place.mkdir()
    seen = [] if options else [f"{shared}/stream", f"{shared}/datagram"]
    hidden_ones = [f"{hidden}/stream", f"{hidden}/datagram"]
    abstract = [f"\0{folder}/stream", f"\0{folder}/datagram"]
    listening = []
    try:
        for address in (*seen, *hidden_ones, *abstract):
            made = socket.socket(
                socket.AF_UNIX, socket.SOCK_STREAM if address.endswith("stream") else socket.SOCK_DGRAM
            )
            listening.append(made)
            made.bind(address)
            if not address.startswith("\0"):
                os.chmod(address, 0o777)
            if made.type == socket.SOCK_STREAM:
                made.listen()
        program = f"PATHS = {[*seen, *hidden_ones, *abstract]!r}\n{OUTWARDS}"
        assert look(mechanism, user, folder, program, *options) == []
        for made in listening:
            made.setblocking(False)
            with pytest.raises(BlockingIOError):
                made.accept() if made.type == socket.SOCK_STREAM else made.recv(1)
    finally:
        for made in listening:
            made.close()


@without_namespaces
def test_without_namespaces_there_are_connected_pairs_and_no_other_unix_sockets(
    user: str, folder: Path
) -> None:
    program = """
import socket
ours, theirs = socket.socketpair()
ours.sendall(b"hello")
said = [theirs.recv(10).decode()]
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    for make in (socket.socket, socket.socketpair):
        try:
            make(socket.AF_UNIX, kind)
            said.append("made")
        except PermissionError:
            said.append("refused")
print(json.dumps(said))
"""
    said = look("landlock", user, folder, program, "unix-sockets")
    # pairs of streams and of packet sequences are connected for good
    assert said == ["hello", "refused", "made", "refused", "refused", "refused", "made"]


CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="no Chromium on this machine: apt-get install chromium",
)
@with_namespaces
def test_a_browser_runs_in_a_sandbox(user: str, folder: Path) -> None:
    """Without its own sandbox, whose namespaces are refused; within the usual limits of a plugin."""
    assert CHROMIUM is not None
    program = f"""
page = "data:text/html,<p id=answer></p><script>answer.textContent = 6 * 7</script>"
options = ["--headless", "--no-sandbox", f"--user-data-dir={{os.getcwd()}}/profile", "--dump-dom", page]
environment = {{**os.environ, "HOME": os.getcwd()}}
made = subprocess.run([{CHROMIUM!r}, *options], capture_output=True, text=True, env=environment)
print(json.dumps([made.returncode, made.stdout, made.stderr[-1000:]]))
"""
    status, page, errors = look("bubblewrap", user, folder, program, "unix-sockets", "plugin-limits")
    assert (status, '<p id="answer">42</p>' in page) == (0, True), errors
