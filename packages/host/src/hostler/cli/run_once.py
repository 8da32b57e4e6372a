"""One run of `hostler run`: through the server that has the data directory, or a host in this process."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hostler.cli.client import Api
from hostler.cli.configuration import send_config
from hostler.cli.options import data_directory
from hostler.cli.output import CANCELLED, FAILED, INTERRUPTED, PAUSED, STATUS_OF_RUN, note, show_error
from hostler.cli.pause_show import WAITING, what_next
from hostler.cli.remote_plugin import serve_plugin
from hostler.cli.routes import route
from hostler.cli.run_output import Show, follow, interrupts, until_paused
from hostler.cli.server_address import find_server
from hostler.cli.target_agent import ServePlugin, target_agent
from hostler.cli.targets import read_target
from hostler.domain.record import Record
from hostler.host.config_file import read_config_file
from hostler.host.lock import read_holder
from hostler.plugins.source import Folder, SingleFile
from hostler_protocol.errors import UnauthorizedError
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.ids import new_id
from hostler_protocol.runs import TERMINAL_STATUSES

HOLDER_SECONDS = 10.0
"""How long to wait for a process that has the data directory and serves no HTTP: another run, or a server
that is just starting."""
POLL_SECONDS = 0.1
MAX_PAUSES = 10
"""Pauses of one run that are read; a run waits for one at a time."""


class RunOptions(Record):
    """Arguments and options of `hostler run`."""

    target: str
    text: str
    as_json: bool
    conversation: str | None
    config: dict[str, Any]
    model: str | None
    config_file: Path | None
    data: Path | None
    url: str | None
    key: str | None


async def run_once(options: RunOptions) -> int:
    """Run the target once, print its results, and return the exit status."""
    data_dir = data_directory(options.data)
    target = read_target(options.target)
    if options.url is None:
        await _wait_for_holder(data_dir)
    address = find_server(options.url, options.key, data_dir)
    async with AsyncExitStack() as stack:
        if address is None:
            api, serve = await stack.enter_async_context(_own_host(data_dir))
        else:
            api = Api.at(address.url, address.key)
            serve = partial(serve_plugin, api, data_dir=data_dir)
        stack.push_async_callback(api.close)
        if options.config_file is not None:
            config, source = read_config_file(options.config_file)
            await send_config(api, config, source)
        name = await stack.enter_async_context(
            target_agent(
                api,
                target,
                serve,
                config=options.config,
                model=options.model,
                keep=options.conversation is not None,
            )
        )
        status = await _run(api, options, name)
        if status == PAUSED and address is None:
            note("then it goes on when a server runs on this data directory: hostler serve")
        return status


@asynccontextmanager
async def _own_host(data_dir: Path) -> AsyncIterator[tuple[Api, ServePlugin]]:
    """Open a host in this process, with its API and the way to start a plugin in it."""
    from hostler.cli.in_process import InProcessTransport
    from hostler.host.config import Settings
    from hostler.host.host import Host

    settings = Settings(
        data_dir=data_dir,
        database=os.environ.get("HOSTLER_DATABASE"),
        admin_key=secrets.token_urlsafe(24),
        shutdown_grace_seconds=0.0,
    )
    async with Host.open(settings) as host:

        @asynccontextmanager
        async def serve(source: Folder | SingleFile) -> AsyncIterator[None]:
            await host.supervisor.connection(host.supervisor.add(source))
            yield

        wire = InProcessTransport.of_host(host)
        yield Api(wire, "http://localhost", wire.key), serve


async def _wait_for_holder(data_dir: Path) -> None:
    until = time.monotonic() + HOLDER_SECONDS
    noted = False
    while (holder := read_holder(data_dir)) is not None and holder.url is None and time.monotonic() < until:
        if not noted:
            note(f"waiting for process {holder.pid}, which has the data directory {data_dir}")
            noted = True
        await asyncio.sleep(POLL_SECONDS)


async def _run(api: Api, options: RunOptions, agent: str) -> int:
    """Send the message, follow its run until it ends or waits for a person, and return the exit status."""
    event = EventEnvelope(
        event_type="message.received",
        input=Input(text=options.text),
        agent=agent,
        conversation_id=options.conversation or new_id(),
        source="api",
    )

    async def send() -> str | None:
        accepted = await api.post("/v1/events", event)
        run: dict[str, Any] | None = accepted["run"]
        if run is None:
            show_error(f"the agent started no run: {accepted['outcome']}")
        return None if run is None else str(run["run_id"])

    return await follow_run(api, send, as_json=options.as_json)


async def follow_run(api: Api, begin: Callable[[], Awaitable[str | None]], *, as_json: bool) -> int:
    """Follow a run until it ends or waits for a person, and return the exit status.

    `begin` begins it and returns its id, or None if there is none. Ctrl-C cancels the run.
    """
    show = Show(as_json=as_json)
    async with interrupts() as interrupted:
        run_id = await begin()
        if run_id is None:
            return FAILED
        path = route("runs", run_id)
        try:
            await follow(
                until_paused(api.results(run_id)),
                show.result,
                interrupted,
                lambda: api.post(f"{path}/cancel", {"reason": "interrupted at the terminal"}),
            )
        finally:
            show.end()
        status = (await api.get(path))["status"]
        if status not in TERMINAL_STATUSES:
            await _show_pauses(api, run_id)
            return PAUSED
        code = STATUS_OF_RUN.get(status, FAILED)
        return INTERRUPTED if interrupted.is_set() and code == CANCELLED else code


async def _show_pauses(api: Api, run_id: str) -> None:
    """Print what the run waits for, and the commands that decide it; nothing if the key may not see it."""
    try:
        pauses = await api.items("/v1/pauses", limit=MAX_PAUSES, run_id=run_id)
    except UnauthorizedError:
        return
    for pause in pauses:
        if pause["status"] in WAITING:
            what_next(pause)
