"""An MCP server over stdio that passes each message on to a server over HTTP.

For agents that start MCP servers as programs only. It needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MAX_LINE_BYTES = 8 * 1024 * 1024
"""One message, as at the run's server."""
CALLS_AT_ONCE = 32
INTERNAL_ERROR = -32603

_output = threading.Lock()
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def write(message: bytes) -> None:
    """Write one message to standard output."""
    with _output:
        sys.stdout.buffer.write(message.strip().replace(b"\n", b" ") + b"\n")
        sys.stdout.buffer.flush()


def pass_on(line: bytes) -> None:
    """Send a message, and write the answer, if there is one."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": os.environ["HOSTLER_MCP_AUTHORIZATION"],
    }
    request = urllib.request.Request(os.environ["HOSTLER_MCP_URL"], line, headers)  # noqa: S310 - the run's own
    try:
        with _opener.open(request) as answer:
            if answer.headers.get_content_type() == "text/event-stream":
                for event in answer:
                    if event.startswith(b"data:"):
                        write(event[5:])
            elif body := answer.read():
                write(body)
    except urllib.error.HTTPError as error:
        _answer_error(line, error.read(), f"the server of the run answered {error.code}")
    except OSError as error:
        _answer_error(line, b"", f"the server of the run cannot be reached: {error}")


def _answer_error(line: bytes, body: bytes, text: str) -> None:
    try:
        asked = json.loads(line)
        answered: Any = json.loads(body) if body else None
    except ValueError:
        asked, answered = None, None
    if isinstance(answered, dict) and "jsonrpc" in answered:
        write(body)
    elif isinstance(asked, dict) and asked.get("id") is not None:
        error = {"code": INTERNAL_ERROR, "message": text}
        write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode())


def main() -> None:
    """Pass on the lines of standard input, several at once, until it ends."""
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        while line := sys.stdin.buffer.readline(MAX_LINE_BYTES):
            if line.strip():
                pool.submit(pass_on, line)


if __name__ == "__main__":
    main()
