"""The values of the secrets that this process has read, and redaction of the texts that it writes.

The host puts its own words into logs, errors and problems, and quotes services and tools in them. Whatever
it writes there goes through `redact`.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Any, TypeVar

import msgspec

from hostler.domain.redaction import MIN_SECRET_CHARS, pattern_of, redacted
from hostler_protocol.errors import HostlerError, RemoteFaultError

MAX_KNOWN = 4_096
"""Values that are remembered; the one that was read longest ago is forgotten first."""
MAX_REMEMBERED_CHARS = 4_096
"""Of longer values (files with certificates) each line is remembered by itself."""
MAX_DEPTH = 20
E = TypeVar("E", bound=HostlerError)


class KnownValues:
    """Values to redact. Safe for use by several threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, None] = OrderedDict()
        self._pattern: re.Pattern[str] | None = None
        self._is_old = False
        self._lock = threading.Lock()

    def remember(self, value: str) -> None:
        """Remember a secret."""
        parts = [value] if len(value) <= MAX_REMEMBERED_CHARS else value.splitlines()
        with self._lock:
            for part in parts:
                if not MIN_SECRET_CHARS <= len(part) <= MAX_REMEMBERED_CHARS:
                    continue
                if part in self._values:
                    self._values.move_to_end(part)
                    continue
                self._values[part] = None
                self._is_old = True
            while len(self._values) > MAX_KNOWN:
                self._values.popitem(last=False)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        if self._is_old:
            with self._lock:
                self._pattern, self._is_old = pattern_of(self._values), False
        return redacted(text, self._pattern)


KNOWN = KnownValues()
"""Those of this process: the values that any of its hosts has read."""


def remember(value: str) -> None:
    """Remember a secret that was read."""
    KNOWN.remember(value)


def redact(text: str) -> str:
    """Return a text that the host writes without secrets."""
    return KNOWN.redact(text)


def redact_error(error: E) -> E:
    """Take the secrets out of an error's message and details; return the error."""
    if isinstance(error, RemoteFaultError):
        fault = error.fault
        error.fault = msgspec.structs.replace(
            fault, message=redact(fault.message), details=_redacted(fault.details)
        )
    error.message, error.details = redact(error.message), _redacted(error.details)
    error.args = (error.message, *error.args[1:])
    return error


def _redacted(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return redact(value)
    if depth < MAX_DEPTH:
        if isinstance(value, dict):
            return {key: _redacted(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [_redacted(inner, depth + 1) for inner in value]
    return value
