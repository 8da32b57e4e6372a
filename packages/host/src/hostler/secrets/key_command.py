"""Keys printed by a command (`command:PROGRAM ARGS`), for key management services."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from typing import IO, cast

from hostler.secrets.resolver import SecretUnreadableError
from hostler_protocol.errors import InvalidArgumentError

PREFIX = "command:"
COMMAND_SECONDS = 20.0
"""How long a command may take: a request to a key management service, with its own tries."""
MAX_OUTPUT_BYTES = 4096
"""A key has at most 64 characters; the rest allows for blank lines."""
_LOOK_SECONDS = 0.05
"""Between two looks whether a command that prints nothing has ended."""
_SHOWN_CHARS = 200
"""Of the last line that a failed command wrote to its standard error."""


def split_command(reference: str) -> list[str]:
    """Return program and arguments of a `command:` reference. InvalidArgumentError."""
    try:
        words = shlex.split(reference.removeprefix(PREFIX))
    except ValueError as error:
        raise InvalidArgumentError(f"{named(reference)}: this is no command: {error}") from None
    if not words or not words[0] or any("\x00" in word for word in words):
        raise InvalidArgumentError("command: this names no program: write command:PROGRAM ARGS")
    return words


def named(reference: str) -> str:
    """Return the reference for messages: without its arguments, which somebody may have put a secret into."""
    words = reference.removeprefix(PREFIX).split(maxsplit=1)
    return f"{PREFIX}{words[0]}{' ...' if len(words) > 1 else ''}" if words else PREFIX


def missing_program(reference: str) -> str | None:
    """Return why the command of a reference cannot be started, or None; it is not started."""
    program = split_command(reference)[0]
    if shutil.which(program) is None:
        return f"{named(reference)}: there is no such program, or it cannot be executed"
    return None


def run_key_command(reference: str, seconds: float = COMMAND_SECONDS) -> str:
    """Return what the command of a reference prints. Blocks for at most `seconds`.

    The command runs without a shell, in a session of its own, with the environment of the host, in which key
    management services find their credentials. SecretUnreadableError if it fails, prints too much or takes
    too long; the message has the end of its standard error, never its output.
    """
    words = split_command(reference)
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise SecretUnreadableError(f"{named(reference)}: it cannot be started: {error.strerror}") from None
    try:
        output, errors = _read(process, reference, time.monotonic() + seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if process.returncode != 0:
        raise SecretUnreadableError(f"{named(reference)}: {_failure(process.returncode, errors)}")
    return output.decode("utf-8", "replace").strip()


def _read(process: subprocess.Popen[bytes], reference: str, until: float) -> tuple[bytes, bytes]:
    """Read both outputs until the command has ended. SecretUnreadableError."""
    late = SecretUnreadableError(f"{named(reference)}: it did not end in time")
    output, errors = b"", b""
    with selectors.DefaultSelector() as pipes:
        for pipe in (process.stdout, process.stderr):
            pipes.register(cast("IO[bytes]", pipe), selectors.EVENT_READ)
        while pipes.get_map():
            if time.monotonic() > until:
                raise late
            ready = pipes.select(_LOOK_SECONDS)
            if not ready and process.poll() is not None:
                break  # a process that it left behind keeps its output open
            for key, _ in ready:
                if not (chunk := os.read(key.fd, MAX_OUTPUT_BYTES)):
                    pipes.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += chunk
                else:
                    errors = (errors + chunk)[-MAX_OUTPUT_BYTES:]
            if len(output) > MAX_OUTPUT_BYTES:
                raise SecretUnreadableError(f"{named(reference)}: it prints more than a key")
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise late from None
    return output, errors


def _failure(status: int, errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    ended = f"it ended with status {status}" if status > 0 else f"it was ended by signal {-status}"
    return f"{ended}: {lines[-1][:_SHOWN_CHARS]}" if lines else ended
