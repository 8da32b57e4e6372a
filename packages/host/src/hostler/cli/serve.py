"""`hostler serve`: the host as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.output import err, fail, note, show_error

if TYPE_CHECKING:
    from hostler.config import Settings
    from hostler.host import Host

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory.", envvar="HOSTLER_DATA", show_default=False),
]


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0: any free one.")] = 8420,
    data: DataOption = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration, YAML or TOML.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="URL",
            help="postgresql://... instead of SQLite in the data directory.",
            envvar="HOSTLER_DATABASE",
        ),
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
) -> None:
    """Start the host: events in over HTTP, runs, results out. Ctrl-C or SIGTERM stops it in order."""
    from hostler.config import Settings, default_data_dir
    from hostler.http.admin_key import admin_key
    from hostler_protocol.errors import HostlerError

    if log_level.lower() not in {"debug", "info", "warning", "error"}:
        fail(f"--log-level is {log_level!r}; expected debug, info, warning or error", 2)
    set_up_logging(log_level)
    data_dir = (data or default_data_dir()).expanduser().resolve()
    try:
        key = admin_key(data_dir, os.environ.get("HOSTLER_ADMIN_KEY"))
        settings = Settings(
            data_dir=data_dir,
            database=database,
            config=config,
            host=host,
            port=port,
            admin_key=key.key,
        )
        if key.made:
            note(f"admin key (shown once, kept in {data_dir / 'admin.key'}): {key.key}")
        asyncio.run(_serve(settings))
    except HostlerError as error:
        fail(error.message)


def set_up_logging(level: str) -> None:
    """Log to standard error, one line a record."""
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s  %(message)s"
    )
    for quiet in ("httpx", "httpcore", "asyncio", "uvicorn", "websockets"):
        logging.getLogger(quiet).setLevel(logging.WARNING)


async def _serve(settings: Settings) -> None:
    from hostler.host import Host
    from hostler.http.server import serve as serve_http

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, stop)
    async with Host.open(settings) as host:
        server = await serve_http(host, settings)
        host.announce(server.url)
        reload = asyncio.Event()
        with contextlib.suppress(AttributeError):  # no SIGHUP on this platform
            loop.add_signal_handler(signal.SIGHUP, reload.set)
        await _greet(host, server.url)
        reloader = asyncio.create_task(_reload(host, reload))
        ended = asyncio.create_task(server.wait())
        try:
            await asyncio.wait([asyncio.create_task(stop.wait()), ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            reloader.cancel()
            await server.close()
            await asyncio.gather(reloader, ended, return_exceptions=True)


def _stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(130)  # asked twice: the facts are safe, the next start settles the rest
    note("stopping: running agents get their time to finish; again to stop at once")
    stop.set()


async def _greet(host: Host, url: str) -> None:
    from rich.text import Text

    config = await host.export()
    names = ", ".join(spec.name for spec in config.agents) or "none yet: hostler apply config.yaml"
    err().print(Text.assemble(("hostler ", "bold"), "serves at ", (url, "bold cyan"), f"  docs {url}/docs"))
    err().print(Text.assemble("agents  ", (names, "green")))
    for place, trouble in host.troubles.items():
        show_error(f"{place}: {trouble}")


async def _reload(host: Host, asked: asyncio.Event) -> None:
    """Apply the configuration file again whenever SIGHUP comes."""
    from hostler.config import load_config
    from hostler_protocol.errors import HostlerError

    while True:
        await asked.wait()
        asked.clear()
        path = host.settings.config
        if path is None:
            note("SIGHUP: there is no configuration file to read again")
            continue
        try:
            diff = await host.apply(await asyncio.to_thread(load_config, path), actor="config file")
        except HostlerError as error:
            show_error(f"the configuration was not applied: {error.message}")
        else:
            note(f"configuration applied: {len(diff.effective)} changes")
