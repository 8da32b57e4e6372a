"""The log of a server on standard error: lines for people, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
import time
import traceback

import msgspec

QUIET = ("httpx", "httpcore", "asyncio", "uvicorn", "websockets")
"""Libraries that log each request: only their warnings are logged."""


class JsonLines(logging.Formatter):
    """One JSON object per line: `at` (UTC, ISO 8601), `level`, `logger`, `message`, perhaps `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))
        return msgspec.json.encode(line).decode()


class PlainLines(logging.Formatter):
    """One line per record. Control characters in a message are escaped, so that they cannot forge lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name of the library's
        """Return the line of a record, without its traceback."""
        text = record.message
        record.message = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        try:
            return super().formatMessage(record)
        finally:
            record.message = text


def set_up_logging(level: str, *, as_json: bool = False) -> None:
    """Send logs of `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    plain = PlainLines("%(asctime)s %(levelname)-7s %(name)s  %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
