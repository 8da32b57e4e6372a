"""`hostler serve`: run the host."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hostler.cli.options import DatabaseOption, DataOption, data_directory
from hostler.cli.output import INTERRUPTED, USAGE, fail, note, report_errors, show_error, show_problem
from hostler.cli.terminal import paint

if TYPE_CHECKING:
    from hostler.host.config import Settings
    from hostler.host.host import Host

Level = Literal["debug", "info", "warning", "error"]
YOUNG_OBJECTS = 10_000
"""New objects before Python collects cycles among them. An active run has a few hundred, which are freed
without it: with Python's default of 700, collections take a tenth of the CPU."""
FEW_CONNECTIONS = 1_000
"""A server that can have fewer says so when it starts."""


def serve(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free one.")
    ] = 8420,
    data: DataOption = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A configuration file, YAML or TOML.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove entries that FILE does not name, now and at each reload.")
    ] = False,
    database: DatabaseOption = None,
    max_runs: Annotated[
        int, typer.Option("--max-runs", min=1, help="The most runs at once; others wait.")
    ] = 256,
    max_runs_per_workspace: Annotated[
        int | None, typer.Option("--max-runs-per-workspace", min=1, help="The most runs of one workspace.")
    ] = None,
    max_runs_per_plugin: Annotated[
        int | None, typer.Option("--max-runs-per-plugin", min=1, help="The most runs of one plugin.")
    ] = None,
    hold_seconds: Annotated[
        float,
        typer.Option("--hold-seconds", min=0, help="How long a run that waits for people keeps its process."),
    ] = 20.0,
    lease_seconds: Annotated[
        float,
        typer.Option(
            "--lease-seconds",
            min=3,
            help="On PostgreSQL: how long this host may be silent before others take over its runs.",
        ),
    ] = 15.0,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="The address of this host for other services, like https://hostler.example.com.",
            envvar="HOSTLER_PUBLIC_URL",
        ),
    ] = None,
    trusted_proxies: Annotated[
        str,
        typer.Option(
            "--trusted-proxies",
            metavar="ADDRESSES",
            help="Proxies whose X-Forwarded-For is believed: addresses and networks, with commas between.",
            envvar="HOSTLER_TRUSTED_PROXIES",
        ),
    ] = "",
    log_level: Annotated[Level, typer.Option("--log-level", help="The least level to log.")] = "info",
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log-format", help="Lines for people or for programs.")
    ] = "text",
    with_parent: Annotated[
        bool, typer.Option("--with-parent", hidden=True, help="End when standard input is closed.")
    ] = False,
) -> None:
    """Start the host: it takes events over HTTP, runs agents and streams results.

    Ctrl-C or SIGTERM stops it in order; SIGHUP reloads the configuration file.
    """
    if prune and config is None:
        fail("--prune needs --config FILE: it removes the entries that FILE does not name", USAGE)
    _import_host()
    from hostler.cli.logs import set_up_logging
    from hostler.host.config import Settings
    from hostler.http.admin_key import find_admin_key
    from hostler.http.descriptors import connections_within, raise_open_files
    from hostler.http.proxies import TrustedProxies

    set_up_logging(log_level, as_json=log_format == "json")
    connections = connections_within(raise_open_files())
    if connections < FEW_CONNECTIONS:
        text = "at most %d connections: this process may open few files; raise the hard limit (ulimit -Hn)"
        logging.getLogger("hostler").warning(text, connections)
    data_dir = data_directory(data)
    with report_errors():
        key = find_admin_key(data_dir, os.environ.get("HOSTLER_ADMIN_KEY"))
        settings = Settings(
            data_dir=data_dir,
            database=database,
            config=config,
            prune=prune,
            host=host,
            port=port,
            admin_key=key.key,
            max_active_runs=max_runs,
            max_runs_per_workspace=max_runs_per_workspace,
            max_runs_per_plugin=max_runs_per_plugin,
            hold_seconds=hold_seconds,
            lease_seconds=lease_seconds,
            trusted_proxies=tuple(one for one in trusted_proxies.split(",") if one.strip()),
            public_url=_origin(public_url) or _own_url(host, port),
        )
        TrustedProxies(settings.trusted_proxies)  # refused before anything starts
        asyncio.run(_serve(settings, new_key=key.key if key.made else None, with_parent=with_parent))


def _import_host() -> None:
    """Import the host without collections: they would visit it again and again, and free next to nothing."""
    gc.disable()
    try:
        import hostler.host.host
        import hostler.http.server  # noqa: F401
    finally:
        gc.enable()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _origin(public_url: str | None) -> str | None:
    """Return the URL for other services, None if empty. InvalidArgumentError if it is not an HTTP URL."""
    from urllib.parse import urlsplit

    from hostler_protocol.errors import InvalidArgumentError

    if not public_url:
        return None
    try:
        parts = urlsplit(public_url)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise InvalidArgumentError(f"--public-url {public_url}: write it like https://hostler.example.com")
    return public_url


def _own_url(host: str, port: int) -> str | None:
    """Return the server's URL for programs on this machine; None for port 0, which is not known yet."""
    from hostler.http.server import url_of

    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  compared, not bound
    return url_of(near, port) if port else None


async def _serve(settings: Settings, *, new_key: str | None, with_parent: bool) -> None:
    """Serve until stopped. A new admin key is saved and shown only after the server has started."""
    from hostler.host.host import Host
    from hostler.http.admin_key import keep_admin_key
    from hostler.http.server import serve as serve_http

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, stop)
    if with_parent:
        loop.add_reader(0, _parent_left, stop)
    async with Host.open(settings) as host:
        server = await serve_http(host, settings)
        if new_key is not None:
            keep_admin_key(settings.data_dir, new_key)
            note(f"admin key (shown once, saved in {settings.data_dir / 'admin.key'}): {new_key}")
        host.announce(server.url)
        reload = asyncio.Event()
        with contextlib.suppress(AttributeError):  # no SIGHUP on this platform
            loop.add_signal_handler(signal.SIGHUP, reload.set)
        await _greet(host, server.url)
        gc.collect()
        gc.freeze()  # objects from the start stay: collections need not visit them
        tasks = [
            asyncio.create_task(_reload(host, reload)),
            asyncio.create_task(stop.wait()),
            asyncio.create_task(server.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks[:2]:
                task.cancel()
            await host.drain()  # open streams show how their runs end
            await server.close()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _stop(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(INTERRUPTED)  # second signal: the data is safe, and the next start settles the rest
    note("stopping: active runs get time to finish; signal again to stop at once")
    stop.set()


def _parent_left(stop: asyncio.Event) -> None:
    if not os.read(0, 4096):
        asyncio.get_running_loop().remove_reader(0)
        stop.set()


async def _greet(host: Host, url: str) -> None:
    config = await host.export()
    names = ", ".join(spec.name for spec in config.agents) or "none yet: hostler apply config.yaml"
    name, address, agents = (
        paint(text, style, sys.stderr)
        for text, style in (("hostler", "bold"), (url, "bold cyan"), (names, "green"))
    )
    sys.stderr.write(f"{name} serves at {address}  docs {url}/docs\nagents  {agents}\n")
    sys.stderr.flush()
    for problem in await host.problems():
        show_problem(problem)


async def _reload(host: Host, requested: asyncio.Event) -> None:
    """Apply the configuration file again at each SIGHUP."""
    from hostler.host.config_file import read_config_file
    from hostler_protocol.errors import HostlerError

    while True:
        await requested.wait()
        requested.clear()
        path = host.settings.config
        if path is None:
            note("SIGHUP: there is no configuration file to reload")
            continue
        try:
            config, source = await asyncio.to_thread(read_config_file, path)
            diff = await host.apply(config, actor="config file", prune=host.settings.prune, source=source)
        except HostlerError as error:
            show_error(f"the configuration was not applied, and the previous one stays: {error.message}")
        else:
            note(f"configuration applied: {len(diff.effective)} changes")
            for problem in diff.problems:
                show_problem(problem)
