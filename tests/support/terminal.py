"""A command at a real terminal: what it writes is waited for, what a person types is sent.

with Terminal(["hostler", "chat", "echo"], cwd, env) as terminal:
    terminal.expect("›")
    terminal.type("hello")
    terminal.expect("hello!")
    assert terminal.ends() == 0
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

BOUND_SECONDS = 200.0
"""What anything may take; it only has to end what hangs."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>()][A-Z0-9]?)|[\x01\x02]")


_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""In the child: the terminal becomes its own, so that Ctrl-C reaches it."""


class Terminal:
    """A process with a terminal of 200 columns."""

    def __init__(self, command: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (50, 200))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *map(str, command)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**env, "TERM": "xterm", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        os.close(slave)
        self._text = ""
        self._at = 0
        self._news = threading.Condition(threading.RLock())
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(BOUND_SECONDS)
        self._reader.join(BOUND_SECONDS)
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything it wrote, without colours and cursor movements."""
        with self._news:
            return _ESCAPES.sub("", self._text).replace("\r", "")

    @property
    def raw(self) -> str:
        """Everything it wrote, as the terminal got it."""
        with self._news:
            return self._text

    def expect(self, wanted: str) -> str:
        """Wait until it has written this after what was expected before; what stood in between."""
        with self._news:
            found = self._news.wait_for(lambda: self._find(wanted) is not None or self._over, BOUND_SECONDS)
            place = self._find(wanted)
            assert found, f"{wanted!r} did not come; it wrote:\n{self.text}"
            assert place is not None, f"it ended without {wanted!r}; it wrote:\n{self.text}"
            between = self.text[self._at : place]
            self._at = place + len(wanted)
            return between

    def type(self, line: str) -> None:
        """A line, and Return."""
        os.write(self._master, f"{line}\r".encode())

    def press(self, control: str) -> None:
        """Ctrl and a letter."""
        os.write(self._master, bytes([ord(control.upper()) - 64]))

    def ends(self) -> int:
        """Wait for its end and all that it wrote; the exit status."""
        status = self._process.wait(BOUND_SECONDS)
        with self._news:
            assert self._news.wait_for(lambda: self._over, BOUND_SECONDS), "somebody holds its terminal open"
        return status

    def _find(self, wanted: str) -> int | None:
        place = self.text.find(wanted, self._at)
        return None if place < 0 else place

    def _read(self) -> None:
        pieces = b""
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                data = b""  # the other side is closed
            with self._news:
                pieces += data
                self._text = pieces.decode(errors="replace")
                self._over = not data
                self._news.notify_all()
            if not data:
                return
