"""The process that plugins are forked from (see ready_plugins.py)."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import gc
import importlib
import importlib.util
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
import time
import types
from pathlib import Path
from typing import Any

import hostler.sandbox.limits_guard  # noqa: F401 - shims of sandboxes are forked with it
from hostler_sdk import serve
from support.forking import PLUGIN_ENVIRONMENT, end_with

SHIM = Path(__file__).resolve().parents[2] / "packages" / "host" / "src" / "hostler" / "sandbox" / "shim.py"
SERVE = ["-m", "hostler_sdk.serve"]
FAULT_HANDLER = "PYTHONFAULTHANDLER"
MAX_FILES = 8
MAX_LAUNCH_BYTES = 1 << 20


class Shown:
    """The arguments and the environment of this process as /proc shows them; both can be written over."""

    def __init__(self) -> None:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        self._arguments = tuple(map(int, fields[45:47]))
        self._environment = tuple(map(int, fields[47:49]))

    def change(self, arguments: list[str], environment: dict[str, str]) -> None:
        """Show others."""
        self._write(self._arguments, arguments)
        self._write(self._environment, _lines(environment))

    def fits(self, arguments: list[str], environment: dict[str, str]) -> bool:
        """Whether there is room for them."""
        texts = ((self._arguments, arguments), (self._environment, _lines(environment)))
        return all(len(_joined(text)) < place[1] - place[0] for place, text in texts)

    def _write(self, place: tuple[int, ...], texts: list[str]) -> None:
        size = place[1] - place[0]
        ctypes.memmove(place[0], _joined(texts)[:size].ljust(size, b"\0"), size)


def _lines(environment: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _joined(texts: list[str]) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts)


def serve_forks(listening: socket.socket) -> None:
    """Fork a process for each that is asked for, until standard input is closed."""
    for module in sys.argv[5:]:
        importlib.import_module(module)
    Forks(listening).serve()


class Forks:
    """The hosts that are connected, and the processes that were forked for them."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._hosts: dict[int, socket.socket] = {}
        self._children: dict[int, socket.socket] = {}
        """Process id -> the host that waits for it."""
        self._poller = select.poll()
        self._shown = Shown()
        self._shim = _load_shim()
        self._wake = _children_wake()

    def serve(self) -> None:
        """Do as the hosts say."""
        gc.collect()
        gc.freeze()
        for descriptor in (0, self._wake, self._listening.fileno()):
            self._poller.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == 0:
                    os._exit(0)
                if descriptor == self._wake:
                    os.read(self._wake, 512)
                    self._reap_lost()
                elif descriptor == self._listening.fileno():
                    host, _ = self._listening.accept()
                    self._hosts[host.fileno()] = host
                    self._poller.register(host, select.POLLIN)
                else:
                    self._obey(self._hosts[descriptor])

    def _obey(self, host: socket.socket) -> None:
        try:
            raw, files, _, _ = socket.recv_fds(host, 1000, MAX_FILES)
        except ConnectionError:  # it was killed
            raw, files = b"", []
        if not raw:
            self._poller.unregister(host)
            self._hosts.pop(host.fileno()).close()
            self._reap_lost()
        elif (ended := json.loads(raw).get("ended")) is not None:
            del self._children[ended]
            _answer(host, os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1]))
        elif pid := os.fork():
            self._children[pid] = host
            for file in files:
                os.close(file)
            _answer(host, pid)
        else:
            for other in (self._listening, *self._hosts.values()):
                other.close()
            os.close(self._wake)
            end_with(functools.partial(_become_shim, files, self._shim, self._shown))

    def _reap_lost(self) -> None:
        """Wait for children whose host is gone; others are waited for when it asks."""
        for pid, host in list(self._children.items()):
            if host.fileno() < 0 and os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[pid]


def _answer(host: socket.socket, number: int) -> None:
    """Tell a host, which may have been killed since it asked: then its end is read next."""
    with contextlib.suppress(ConnectionError):
        host.send(str(number).encode())


def _load_shim() -> Any:
    """The shim as a module, without the packages that it is in: it uses none, nor do plugins."""
    spec = importlib.util.spec_from_file_location("_hostler_shim", SHIM)
    assert spec is not None
    assert spec.loader is not None
    shim = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shim)
    return shim


def _children_wake() -> int:
    """A descriptor that can be read when a child ends."""
    wake, write = os.pipe()
    for descriptor in (wake, write):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return wake


# -- in a fork ----------------------------------------------------------------------------------------------


def _become_shim(files: list[int], shim: Any, shown: Shown) -> int:
    """Run the shim, whose child goes on in this interpreter where the launch message allows it."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    passed = files[3:]
    for file in passed:
        os.set_inheritable(file, False)
    environment = {"LC_ALL": "C.UTF-8"}
    os.environ.clear()
    os.environ.update(environment)
    shown.change([sys.executable, "-I", "-S", str(SHIM), *map(str, passed)], environment)
    control = socket.socket(fileno=passed[0])
    if _can_go_on(control.recv(MAX_LAUNCH_BYTES, socket.MSG_PEEK), shown):
        kept = shim.os

        def go_on(_: str, command: list[str], variables: dict[str, str]) -> None:
            shim.os = kept
            end_with(functools.partial(_become_plugin, command, variables, shown))

        shim.os = types.SimpleNamespace(**{**vars(os), "execvpe": go_on})
    return int(shim.Shim(control, passed[1] if len(passed) > 1 else None).run())


def _can_go_on(raw: bytes, shown: Shown) -> bool:
    """Whether a plugin can run in this interpreter: without other options of Python, and in no sandbox."""
    if not raw.endswith(b"\n"):
        return False
    launch = json.loads(raw)
    command, variables = launch["command"], launch["env"]
    options = {k: v for k, v in variables.items() if k.startswith("PYTHON") and k != FAULT_HANDLER}
    return (
        launch["sandbox"] is None
        and command[0] == sys.executable
        and (command[1:3] == SERVE or (len(command) > 1 and command[1].endswith(".py")))
        and options.items() <= PLUGIN_ENVIRONMENT.items()
        and shown.fits(command, variables)
    )


def _become_plugin(command: list[str], variables: dict[str, str], shown: Shown) -> Any:
    """Take on what a new interpreter has of its own, drop the modules of the shim, and run the command."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "hostler"]:
        del sys.modules[name]
    os.closerange(3, 1 << 16)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    shown.change(command, variables)
    os.environ.clear()
    os.environ.update(variables)
    if variables.get(FAULT_HANDLER):
        faulthandler.enable()
    time.tzset()
    random.seed()
    if command[1:3] == SERVE:
        sys.argv = [serve.__file__, *command[3:]]
        sys.path.insert(0, str(Path.cwd()))
        return serve.main()
    sys.argv = command[1:]
    sys.path.insert(0, str(Path(command[1]).resolve().parent))
    runpy.run_path(command[1], run_name="__main__")
    return None
