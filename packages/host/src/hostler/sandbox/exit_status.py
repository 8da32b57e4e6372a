"""The exit status of a process."""

from __future__ import annotations

import signal

from hostler.domain.record import Record


class ExitStatus(Record):
    """The exit status of a process. `code` is negative for a signal, None if unknown."""

    code: int | None

    def __str__(self) -> str:
        if self.code is None:
            return "the process disappeared"
        if self.code < 0:
            try:
                name = signal.Signals(-self.code).name
            except ValueError:
                name = str(-self.code)
            return f"the process was killed by {name}"
        return f"the process exited with status {self.code}"
