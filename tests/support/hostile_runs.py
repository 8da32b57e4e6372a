"""A hostile plugin on every mechanism of this machine, as root and as an ordinary user, seen from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hostler.sandbox.probe import find_capabilities

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CANARY = "canary-4f1d9a"
ORDINARY_UID = 54321
BOUND_SECONDS = 240.0
"""Of one host with all that is tried on it; it only has to end what hangs."""


@dataclass
class Listeners:
    """Sockets outside that count whoever reaches them."""

    folder: Path
    reached: list[str] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    @contextlib.contextmanager
    def open(self) -> Iterator[Listeners]:
        """Listen in threads until the block is left."""
        with contextlib.ExitStack() as stack:
            for name, family, kind, address in (
                ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
                ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
                ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "socket")),
                ("unix datagram", socket.AF_UNIX, socket.SOCK_DGRAM, str(self.folder / "datagrams")),
                ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.folder}"),
            ):
                listening = stack.enter_context(socket.socket(family, kind))
                listening.bind(address)
                if family == socket.AF_INET:
                    self.ports[name] = listening.getsockname()[1]
                elif isinstance(address, str) and not address.startswith("\0"):
                    Path(address).chmod(0o777)
                if kind == socket.SOCK_STREAM:
                    listening.listen()
                thread = threading.Thread(target=self._count, args=(name, listening), daemon=True)
                thread.start()
                stack.callback(listening.shutdown, socket.SHUT_RDWR) if kind == socket.SOCK_STREAM else None
            yield self

    def _count(self, name: str, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if listening.type == socket.SOCK_STREAM:
                while True:
                    made, _ = listening.accept()
                    self.reached.append(name)
                    made.close()
            while True:
                listening.recv(100)
                self.reached.append(name)


@dataclass
class Tried:
    """What came of everything that was tried on one mechanism as one user."""

    results: dict[str, dict[str, Any]]
    notes: list[str]
    promised: str
    reached: list[str]
    pwned: list[str]
    """Files outside that have changed."""
    left: list[int]
    """Processes that outlived everything."""
    largest: int
    """The most bytes that its workspace held while it was filled."""
    places: dict[str, str]
    """What lies outside, by name."""

    def filled(self, text: str) -> str:
        """With the names of what lies outside in it."""
        return _filled(text, self.places)

    def of(self, name: str) -> dict[str, Any]:
        """One attempt."""
        return self.results[name]

    def told(self, name: str) -> str:
        """What the host was told while it was tried, in a line."""
        return "; ".join(f"{kind}: {text}" for kind, text in self.results[name]["told"])


def combinations() -> list[tuple[str, str]]:
    """Mechanism and user: what can be tried here."""
    capabilities = asyncio.run(find_capabilities())
    users = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]
    return [(mechanism, user) for mechanism in capabilities.mechanisms for user in users]


def tried(mechanism: str, user: str, attempts: str) -> Tried:
    """Try what `attempts` (JSON) lists, once; `{name}` in it stands for what lies outside."""
    made = _tried(mechanism, user, attempts)
    if isinstance(made, str):
        raise AssertionError(made)
    return made


@cache
def _tried(mechanism: str, user: str, attempts: str) -> Tried | str:
    """The same; the reason where it cannot be done, so that it is not tried again for every test."""
    try:
        return _try(mechanism, user, attempts)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def _try(mechanism: str, user: str, attempts: str) -> Tried:
    folder = Path(tempfile.mkdtemp(prefix="hostile-", dir="/var/tmp"))
    try:
        places = _lay_out(folder)
        with Listeners(folder).open() as listeners:
            for name, port in listeners.ports.items():
                places[name] = str(port)
            said = _host(mechanism, user, folder, _filled(attempts, places))
            reached = list(listeners.reached)
        return Tried(
            results=said["results"],
            notes=said["notes"],
            promised=said["promised"],
            reached=reached,
            pwned=_pwned(folder),
            left=_left(),
            largest=said["largest"],
            places=places,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lay_out(folder: Path) -> dict[str, str]:
    """The host's home and data, with something in each that nobody else may read or change."""
    files = {
        "home": folder / "home" / ".netrc",
        "database": folder / "data" / "hostler.db",
        "foreign": folder / "data" / "plugins" / "workspaces" / "acme" / "other" / "notes",
        "code": folder / "other" / "main.py",
    }
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CANARY)
    shutil.copytree(HERE / "plugins" / "hostile", folder / "hostile")
    names = {"folder": folder, "own": folder / "hostile", "socket": folder / "socket"}
    names["workspace"] = folder / "data" / "plugins" / "workspaces" / "test" / "hostile"
    return {name: str(path) for name, path in (files | names).items()} | {"pid": str(os.getpid())}


def _filled(attempts: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        attempts = attempts.replace(f'"{{{name}!}}"', value).replace(f"{{{name}}}", value)
    return attempts


def _host(mechanism: str, user: str, folder: Path, attempts: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "hostile_host.py"), mechanism, str(folder)]
    if user == "ordinary" and os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, ORDINARY_UID, ORDINARY_UID, follow_symlinks=False)
        needed = [sys.prefix, sys.base_prefix, str(REPOSITORY)]
        command = [sys.executable, str(HERE / "as_user.py"), str(ORDINARY_UID), *needed, "--", *command]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENAI_API_KEY": CANARY,
    }
    ended = subprocess.run(
        command,
        input=attempts,
        capture_output=True,
        text=True,
        cwd="/",
        env=environment,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


def _pwned(folder: Path) -> list[str]:
    """What was changed outside of the plugin's own workspace."""
    own = folder / "data" / "plugins" / "workspaces" / "test"
    outside = [path for path in folder.rglob("*") if path.is_file() and own not in path.parents]
    changed = [str(path) for path in outside if "pwned" in path.read_text("utf-8", "replace")[:50]]
    places = (
        Path("/tmp") / "pwned-by-hostile",
        Path("/etc/pwned-by-hostile"),
        Path("/usr/lib/pwned-by-hostile"),
    )
    return changed + [str(path) for path in places if path.exists()]


def _left() -> list[int]:
    """Processes that sleep as long as only the hostile plugin's do, in whatever session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if b"time.sleep(86399" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
