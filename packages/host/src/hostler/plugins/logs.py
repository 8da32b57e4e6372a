"""A plugin's stderr in rotating files, with the last lines in memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from hostler.plugins.limits import DEFAULT_PROCESS_LIMITS, ProcessLimits
from hostler.secrets.known_values import OutputRedactor, redact

ERROR_PREFIX = "hostler-plugin-error: "
"""Marks a line of stderr that explains, for people, why the plugin could not be loaded."""
OWN = b"-- hostler: "
"""Starts each line written by the host; no line of the plugin starts with it."""
_QUOTED = b"| "
"""Put in front of a plugin's line that looks like one of the host's."""

_log = logging.getLogger(__name__)


class PluginLog:
    """Appends to `path` and rotates to `path.1`, `path.2` ... within the limits."""

    def __init__(self, path: Path, limits: ProcessLimits = DEFAULT_PROCESS_LIMITS) -> None:
        self.path = path
        self.limits = limits
        self.lines: deque[str] = deque(maxlen=limits.log_tail_lines)
        self.error: str | None = None
        """The plugin's own explanation of why it could not be loaded."""
        self._partial = b""
        self._notes: deque[bytes] = deque(maxlen=limits.log_notes)
        self._at_line_start = True
        self._undecided = b""
        """A possible start of a line like the host's own, not yet in the file."""
        self._redactor = OutputRedactor()
        self._size = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._size = self._file.tell()

    @property
    def last_line(self) -> str | None:
        """The last line that is not blank."""
        return next((line for line in reversed(self.lines) if line.strip()), None)

    def begin(self) -> None:
        """Forget the output of the previous process; its files stay."""
        self.lines.clear()
        self.error = None
        self._partial = b""
        self._notes.clear()

    def note(self, text: str) -> None:
        """Write a line of the host; it is repeated in the files that follow."""
        if self._file.closed:
            return  # the process has ended and the log is closed
        self._write(self._redactor.end())
        line = OWN + f"{redact(text)}\n".encode()
        self._make_room(len(line) + 1)
        self._store(line if self._at_line_start else b"\n" + line)
        self._at_line_start = True
        self._notes.append(line)

    def write(self, data: bytes) -> None:
        """Write output of the plugin, without known secrets."""
        if self._file.closed:
            return  # what a process still had in its pipe when the log was closed
        self._write(self._redactor.take(data))

    def _write(self, data: bytes) -> None:
        self._make_room(
            len(self._undecided) + len(data) + len(data) // len(OWN) * len(_QUOTED) + len(_QUOTED)
        )
        self._store(self._quoted(data))
        *lines, rest = (self._partial + data).split(b"\n")
        for line in lines:
            self._keep(line)
        self._partial = rest[: self.limits.log_line_bytes]

    def end_output(self) -> None:
        """Write what was held back of the output of a process that has ended."""
        if not self._file.closed:
            self._write(self._redactor.end())

    def close(self) -> None:
        """Close the file, including an unfinished line."""
        self.end_output()
        self._store(self._undecided)
        self._undecided = b""
        if self._partial:
            self._keep(self._partial)
            self._partial = b""
        self._file.close()

    def _keep(self, line: bytes) -> None:
        text = line[: self.limits.log_line_bytes].decode("utf-8", "replace").rstrip("\r")
        self.lines.append(text)
        if text.startswith(ERROR_PREFIX):
            self.error = text.removeprefix(ERROR_PREFIX).strip()

    def _quoted(self, data: bytes) -> bytes:
        """Return `data` for the file, with a prefix on lines that look like the host's own."""
        lines = (self._undecided + data).split(b"\n")
        for index, line in enumerate(lines):
            if (index or self._at_line_start) and line.startswith(OWN):
                lines[index] = _QUOTED + line
        self._undecided = b""
        if (len(lines) > 1 or self._at_line_start) and OWN.startswith(lines[-1]):
            self._undecided, lines[-1] = lines[-1], b""
        self._at_line_start = not lines[-1] and (len(lines) > 1 or self._at_line_start)
        return b"\n".join(lines)

    def _make_room(self, size: int) -> None:
        try:
            if self._size + size > self.limits.log_file_bytes:
                self._roll()
                self._at_line_start = True
        except OSError as error:
            _log.warning("%s: %s", self.path, error)

    def _store(self, data: bytes) -> None:
        try:
            self._size += self._file.write(data) or 0
        except OSError as error:  # a full disk must not stop the plugin; the tail is still in memory
            _log.warning("%s: %s", self.path, error)

    def _roll(self) -> None:
        self._file.close()
        try:
            for index in range(self.limits.log_files - 1, 0, -1):
                older = self.path if index == 1 else self.path.with_name(f"{self.path.name}.{index - 1}")
                if older.exists():
                    older.replace(self.path.with_name(f"{self.path.name}.{index}"))
        finally:
            self._file = self.path.open("wb", buffering=0)
        # violations must not get lost because a plugin writes a lot
        self._size = self._file.write(b"".join(self._notes)[-self.limits.log_file_bytes // 2 :]) or 0


class LogPump(asyncio.Protocol):
    """Reads a plugin's stderr into its log, no faster than the limit; calls `on_flood` when it has to
    wait."""

    def __init__(self, log: PluginLog, on_flood: Callable[[str], None] = lambda _: None) -> None:
        self.log = log
        self._on_flood = on_flood
        self.finished = asyncio.get_running_loop().create_future()
        self._transport: asyncio.ReadTransport | None = None
        self._second = 0
        self._in_second = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to pause it."""
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Write, and pause until the next second if the plugin writes too much."""
        self.log.write(data)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if int(now) != self._second:
            self._second, self._in_second = int(now), 0
        self._in_second += len(data)
        if self._in_second > self.log.limits.log_bytes_per_second and self._transport is not None:
            self._transport.pause_reading()
            self._on_flood(
                f"it writes over {self.log.limits.log_bytes_per_second:,} bytes of errors a second: "
                "reading is paused"
            )
            loop.call_at(self._second + 1, self._go_on)

    def _go_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the plugin is gone; all its output is in the log."""
        self.log.end_output()
        self._transport = None
        if not self.finished.done():
            self.finished.set_result(None)
