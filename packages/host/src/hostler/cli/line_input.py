"""Lines typed by a person while results stream in the background."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from typing import Protocol

CHUNK_BYTES = 4096


class Lines:
    """Standard input, line by line. `wake`, from any thread, ends a `wait`."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._buffer = b""
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.ended = False

    def close(self) -> None:
        """Close the sockets."""
        self._reader.close()
        self._writer.close()

    def wake(self) -> None:
        """End the current `wait`, or the next one."""
        with contextlib.suppress(OSError):  # already woken, or closed
            self._writer.send(b".")

    def pop(self) -> str | None:
        """Return the next line if it was read already, else None."""
        line, found, rest = self._buffer.partition(b"\n")
        if not found:
            return None
        self._buffer = rest
        return line.decode(errors="replace").rstrip("\r")

    def wait(self) -> str | None:
        """Return the next line; None if `wake` was called or the input has ended."""
        while True:
            line = self.pop()
            if line is not None:
                return line
            if self.ended:
                return None
            ready, _, _ = select.select([self._fd, self._reader], [], [])
            if self._reader in ready:
                self._reader.recv(CHUNK_BYTES)
                return None
            self._read()

    def ask(self, prompt: str) -> str:
        """Show a prompt and return the line that follows, stripped. EOFError if the input has ended."""
        sys.stdout.write(prompt)
        sys.stdout.flush()
        while (line := self.pop()) is None:
            if self.ended:
                raise EOFError
            self._read()
        return line.strip()

    def _read(self) -> None:
        data = os.read(self._fd, CHUNK_BYTES)
        if not data:
            self.ended = True
            if self._buffer:
                self._buffer += b"\n"
        self._buffer += data


class Asker(Protocol):
    """Asks the person at the terminal."""

    def ask(self, prompt: str) -> str:
        """Show a prompt and return the answer, stripped. EOFError if the input has ended."""
