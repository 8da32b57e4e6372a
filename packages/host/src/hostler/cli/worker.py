"""`hostler worker`: run the plugins of a host on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit, urlunsplit

import typer

from hostler.cli.options import DataOption, data_directory
from hostler.cli.output import INTERRUPTED, note, report_errors

if TYPE_CHECKING:
    from hostler.plugins.remote_workers.client import WorkerClient, WorkerSettings

PATH = "/v1/workers/connect"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def worker(
    connect: Annotated[
        str, typer.Option("--connect", metavar="URL", help="The host, like https://hostler.example.com.")
    ],
    labels: Annotated[
        str, typer.Option("--labels", metavar="LABELS", help="What it offers, with commas between: gpu,eu.")
    ] = "",
    slots: Annotated[int, typer.Option("--slots", min=1, max=10_000, help="The most runs at once.")] = 8,
    name: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id; default: the name of this machine.")
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="A file with its key; default: the variable HOSTLER_KEY."
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", metavar="AUTHOR/NAME", help="A plugin that may run without a sandbox here."),
    ] = None,
    data: DataOption = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option("--log-level", help="The least level to log."),
    ] = "info",
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log-format", help="Lines for people or for programs.")
    ] = "text",
) -> None:
    """Run plugins of a host on this machine, for the agents that ask for its labels.

    Ctrl-C or SIGTERM drains it: it takes no new runs, and ends after the last
    one; a second signal ends it at once.
    """
    from hostler.cli.logs import set_up_logging
    from hostler.domain.worker_labels import check_labels, check_worker_id
    from hostler.host.lock import DataDirLock
    from hostler.plugins.remote_workers.client import WorkerSettings
    from hostler_protocol.errors import InvalidArgumentError

    set_up_logging(log_level, as_json=log_format == "json")
    worker_id = name or socket.gethostname()
    offered = tuple(sorted({label.strip() for label in labels.split(",") if label.strip()}))
    with report_errors():
        try:
            check_worker_id(worker_id)
            check_labels(offered)
            trusted = frozenset(_plugin_key(one) for one in trust or ())
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from error
        folder = data_directory(data) / "workers" / worker_id
        folder.mkdir(parents=True, exist_ok=True)
        settings = WorkerSettings(
            _socket_url(connect), _key(key_file), worker_id, folder, offered, slots, trusted
        )
        with DataDirLock(folder) as lock:
            _take(lock)
            asyncio.run(_work(settings))


def _socket_url(url: str) -> str:
    """Return the address of the WebSocket of workers. InvalidArgumentError."""
    from hostler_protocol.errors import InvalidArgumentError

    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise InvalidArgumentError(f"--connect {url}: write it like https://hostler.example.com")
    if scheme == "ws" and not _is_loopback(parts.hostname):
        note(f"warning: the worker's key goes to {parts.hostname} unencrypted: use https")
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + PATH, "", ""))


def _is_loopback(name: str) -> bool:
    from ipaddress import ip_address

    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _plugin_key(text: str) -> str:
    """Return the plugin of --trust. ValueError."""
    author, slash, name = text.partition("/")
    if not (author and slash and name) or "/" in name:
        raise ValueError(f"--trust {text}: name a plugin by its author and name, like acme/painter")
    return text


def _key(key_file: Path | None) -> str:
    """Return the key of the worker. InvalidArgumentError without one."""
    from hostler_protocol.errors import InvalidArgumentError

    if key_file is None:
        key = os.environ.get("HOSTLER_KEY", "")
    else:
        try:
            key = key_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"--key-file {key_file} cannot be read: {error}") from error
    if not key.strip():
        raise InvalidArgumentError(
            "a worker needs a key with the right workers:connect, in HOSTLER_KEY or --key-file: "
            "`hostler keys create NAME --right workers:connect` makes one"
        )
    return key.strip()


def _take(lock: object) -> None:
    import time

    from hostler.host.lock import DataDirLock, Holder
    from hostler.version import VERSION

    assert isinstance(lock, DataDirLock)
    lock.acquire(Holder(pid=os.getpid(), started_at=time.time(), version=VERSION))


async def _work(settings: WorkerSettings) -> None:
    from hostler.plugins.remote_workers.client import WorkerClient

    client = WorkerClient(settings)
    client.on_joined = lambda: note(f"worker {settings.worker_id} is connected to {settings.url}")
    loop, signals = asyncio.get_running_loop(), [0]
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _signalled, client, signals)
    await client.run()
    note(f"worker {settings.worker_id} has ended")


def _signalled(client: WorkerClient, signals: list[int]) -> None:
    signals[0] += 1
    if signals[0] == 1:
        note("draining: runs get time to finish; signal again to stop at once")
        client.drain()
    elif signals[0] == 2:
        client.stop()
    else:
        os._exit(INTERRUPTED)
