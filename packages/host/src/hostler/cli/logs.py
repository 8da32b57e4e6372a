"""The log of a server on standard error: lines for people, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.domain.token_bucket import TokenBuckets
from hostler.secrets.known_values import redact

QUIET = ("httpx", "httpcore", "asyncio", "uvicorn", "websockets")
"""Libraries that log each request: only their warnings are logged."""

OF_STRANGERS = ("asyncio", "hostler.http", "uvicorn")
"""Loggers whose lines anyone who reaches the server's port can cause."""
LIKE_LINES_PER_SECOND = 1.0
LIKE_LINES_BURST = 20.0
MAX_KINDS = 1_000
"""Kinds of lines whose rate is tracked; the least recently used one is dropped first."""


class BoundedLines(logging.Filter):
    """Bounds the rate of like lines of `OF_STRANGERS`; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._buckets = TokenBuckets(
            LIKE_LINES_PER_SECOND, LIKE_LINES_BURST, clock=clock, max_buckets=MAX_KINDS
        )
        self._left_out: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the record."""
        if record.name.partition(".")[0] not in OF_STRANGERS and record.name not in OF_STRANGERS:
            return True
        kind = f"{record.name} {record.msg}"
        with self._lock:
            if self._buckets.take(kind):
                self._left_out[kind] = self._left_out.pop(kind, 0) + 1
                if len(self._left_out) > MAX_KINDS:
                    self._left_out.popitem(last=False)
                return False
            left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out:,} more like it)", ()
        return True


class JsonLines(logging.Formatter):
    """One JSON object per line: `at` (UTC, ISO 8601), `level`, `logger`, `message`, perhaps `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            line["error"] = redact("".join(traceback.format_exception(*record.exc_info)))
        return msgspec.json.encode(line).decode()


class PlainLines(logging.Formatter):
    """One line per record. Control characters in a message are escaped, so that they cannot forge lines."""

    def formatException(self, ei: Any) -> str:  # noqa: N802  the name of the library's
        """Return the traceback."""
        return redact(super().formatException(ei))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name of the library's
        """Return the line of a record, without its traceback."""
        text = record.message
        shown = redact(text)
        record.message = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
        try:
            return super().formatMessage(record)
        finally:
            record.message = text


def set_up_logging(level: str, *, as_json: bool = False) -> None:
    """Send logs of `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    plain = PlainLines("%(asctime)s %(levelname)-7s %(name)s  %(message)s")
    handler.addFilter(BoundedLines())
    handler.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
