"""More connections than a process may have open files: the rest are refused, and all else goes on."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import ECHO, HOSTLER, CommandLine, Server, environment, until

pytestmark = [pytest.mark.gate("open-connections"), pytest.mark.timeout(600)]
FILES = 200


@contextlib.contextmanager
def serving_with_files(
    hostler: CommandLine, soft: int, hard: int, *arguments: str | Path
) -> Iterator[Server]:
    """A server that may have so many open files."""
    log_path = hostler.cwd / "serve.log"
    command = shlex.join([*HOSTLER, "serve", "--port", "0", *map(str, arguments)])
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"ulimit -Sn {soft} && ulimit -Hn {hard} && exec {command}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(hostler.data),
            cwd=hostler.cwd,
        )
    server = Server(process, hostler.data, log_path)
    try:
        server.wait_ready()
        yield server
    finally:
        server.end()


def connect(server: Server) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)))


def refused(connection: socket.socket) -> bool:
    """Whether the server has answered, which it does only to say that there are too many."""
    connection.setblocking(False)
    try:
        return connection.recv(100).startswith(b"HTTP/1.1 503 ")
    except BlockingIOError:
        return False


def test_connections_take_no_files_that_runs_need(hostler: CommandLine) -> None:
    (hostler.cwd / "hostler.yaml").write_text(
        f"plugins: [{ECHO}]\nagents: [{{name: echo, runner: 'plugin:acme/echo/default'}}]\n"
    )
    config = hostler.cwd / "hostler.yaml"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving_with_files(hostler, FILES, FILES, "--config", config))
        client = stack.enter_context(server.client())
        assert client.get("/readyz").status_code == 200
        before = server.log.count("\n")
        idle = [stack.enter_context(connect(server)) for _ in range(2 * FILES)]
        message = {"event_type": "message.received", "agent": "echo", "input": {"text": "hello"}}
        run = client.post("/v1/events?wait=100", json=message).json()
        assert (run["status"], run["output"]["text"]) == ("completed", "hello!")
        told: set[socket.socket] = set()

        def most_are_refused() -> bool:
            told.update(one for one in idle if one not in told and refused(one))
            return len(told) > FILES

        until(most_are_refused, "not all were answered")
        log = server.log
    assert "at most 72 connections" in log
    assert "Too many open files" not in log
    assert "Traceback" not in log
    assert log.count("\n") - before < 60, log


def test_the_soft_limit_is_raised(hostler: CommandLine) -> None:
    with serving_with_files(hostler, 100, 4096) as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["4096", "4096"]
        assert "at most" not in server.log


def test_strangers_do_not_fill_the_log(hostler: CommandLine) -> None:
    with hostler.serving() as server:
        before = server.log.count("\n")
        for _ in range(300):
            with connect(server) as connection:
                connection.sendall(b"nonsense\r\n\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        assert server.log.count("\n") - before < 100
