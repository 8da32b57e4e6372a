"""Lines of documentation in a shell, where `hostler` is forked from the process that has imported it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from support import ready_processes
from support.command_line import BOUND_SECONDS
from support.forking import CAN_FORK, MAX_ORDER_BYTES

CLIENT = """\
import json, os, socket, sys
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect("\\0" + sys.argv[1])
order = {"arguments": sys.argv[2:], "environment": dict(os.environ), "cwd": os.getcwd()}
socket.send_fds(asked, [json.dumps(order).encode()], [0, 1, 2])
sys.exit(int(asked.recv(100)))
"""
"""Has `hostler` forked with its own files, environment and folder, and ends as that does."""


@contextlib.contextmanager
def shell_functions(folder: Path) -> Iterator[str]:
    """Definitions for a shell that make `hostler` and `python` known, for as long as the block runs."""
    python = f'python() {{ "{sys.executable}" "$@"; }};'
    if not CAN_FORK:
        yield f'{python} hostler() {{ "{sys.executable}" -m hostler "$@"; }};'
        return
    client, name = folder / "forked-hostler.py", f"hostler-{secrets.token_hex(8)}"
    client.write_text(CLIENT)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        serving = threading.Thread(target=_serve, args=(listening,))
        serving.start()
        try:
            yield f'{python} hostler() {{ "{sys.executable}" -I -S "{client}" {name} "$@"; }};'
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join(BOUND_SECONDS)


def run_line(
    functions: str, line: str, cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a line of a page."""
    return subprocess.run(
        ["bash", "-c", f"{functions} {line}"],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_SECONDS,
    )


def _serve(listening: socket.socket) -> None:
    """Fork a command for each that connects, until the socket is shut down."""
    with contextlib.suppress(OSError):
        while True:
            asked, _ = listening.accept()
            threading.Thread(target=_run_forked, args=(asked,), daemon=True).start()


def _run_forked(asked: socket.socket) -> None:
    with asked:
        raw, files, _, _ = socket.recv_fds(asked, MAX_ORDER_BYTES, 3)
        order = json.loads(raw)
        try:
            process = ready_processes.source().start(
                order["arguments"], order["environment"], Path(order["cwd"]), files
            )
        finally:
            for file in files:
                os.close(file)
        status = process.wait(BOUND_SECONDS)
        asked.send(str(status if status >= 0 else 128 - status).encode())
