"""One run, in this process or through the server that has the data directory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hostler.cli.output import CANCELLED, FAILED, INTERRUPTED, PAUSED, STATUS_OF_RUN, note, show_error
from hostler.cli.pause_show import WAITING, what_next
from hostler.cli.run_output import Show, follow, interrupts, until_paused
from hostler.cli.server_address import find_server
from hostler.cli.targets import (
    Target,
    folder_beside,
    plugin_meant,
    read_target,
    runner_name,
    unknown_agent,
    with_model,
)
from hostler.domain.agents import AgentSpec, Scope
from hostler.domain.config_mistakes import ConfigurationError
from hostler.domain.events import Caller
from hostler.host.config import Settings
from hostler.host.config_file import read_config_file
from hostler.host.data_directory import default_data_dir
from hostler.host.host import Host
from hostler.host.lock import read_holder
from hostler.plugins.source import identity_of
from hostler.storage.stores import agents
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.ids import new_id
from hostler_protocol.runs import TERMINAL_STATUSES

HOLDER_SECONDS = 10.0
"""How long to wait for a process that has the data directory and serves no HTTP: another run, or a server
that is just starting."""
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for."""

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


async def run_once(wanted: Wanted) -> int:
    """Run, show what comes, and give the exit status."""
    data_dir = (wanted.data or default_data_dir()).expanduser().resolve()
    target = read_target(wanted.target)
    if wanted.url is None:
        await _wait_for_holder(data_dir)
    address = find_server(wanted.url, wanted.key, data_dir)
    if address is not None:
        from hostler.cli.remote import run_through_server

        return await run_through_server(wanted, target, data_dir, address)
    settings = Settings(
        data_dir=data_dir, database=os.environ.get("HOSTLER_DATABASE"), shutdown_grace_seconds=0.0
    )
    async with Host.open(settings) as host:
        if wanted.config_file is not None:
            config, source = read_config_file(wanted.config_file)
            await host.apply(config, actor="command line", source=source)
        async with _agent(host, wanted, target) as name:
            return await _run(host, wanted, name)


async def _wait_for_holder(data_dir: Path) -> None:
    until = time.monotonic() + HOLDER_SECONDS
    told = False
    while (holder := read_holder(data_dir)) is not None and holder.url is None and time.monotonic() < until:
        if not told:
            note(f"waiting for process {holder.pid}, which has the data directory {data_dir}")
            told = True
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _agent(host: Host, wanted: Wanted, target: Target) -> AsyncIterator[str]:
    """The name of the agent to run: a stored one, or one made for this run alone."""
    ws = host.settings.workspace
    known = [agent.name for agent in await host.event_router.agents(ws)]
    plugin = plugin_meant(target, is_agent=target.text in known)
    if plugin is None:
        if target.text not in known:
            raise unknown_agent(target.text, known)
        agent_meant(wanted, target)
        yield target.text
        return
    plugin_key = host.supervisor.add(plugin.source)
    connection = await host.supervisor.connection(plugin_key)
    runner = runner_name(plugin, connection.runners)
    form = connection.runners[runner].config_schema
    spec = spec_for_one_run(wanted, identity_of(plugin.source).runner_id(runner), form)
    mistakes = await host.configurator.review_agent(spec, ws)
    if any(mistake.severity == "error" for mistake in mistakes):
        raise ConfigurationError(mistakes)
    before = await host.db.read(lambda tx: agents.find(tx, ws, spec.name))
    await host.db.write(lambda tx: agents.apply(tx, ws, spec))
    host.event_router.changed(ws)
    try:
        yield spec.name
    finally:
        if before is None and wanted.conversation is None:
            await host.db.write(lambda tx: agents.delete(tx, ws, spec.name))


def agent_meant(wanted: Wanted, target: Target) -> None:
    """Say so where a file or folder has the agent's name as well.

    InvalidArgumentError for settings and a model: those are for runners; an agent has its own.
    """
    beside = folder_beside(target)
    if wanted.config or wanted.model:
        raise InvalidArgumentError(
            "--set and --model are for plugin folders and files; an agent has its own configuration"
            + (
                f" ({target.text!r} is an agent: for the folder or file, say {target.beside})"
                if beside
                else ""
            )
        )
    if beside is not None:
        note(beside)


def spec_for_one_run(wanted: Wanted, runner_id: str, form: Any) -> AgentSpec:
    """The agent that is made for one run: nothing else is ever routed to it.

    State belongs to an agent: so where a conversation is to go on, the agent stays, and the next run of the
    same runner finds it by its name.
    """
    return AgentSpec(
        name=f"run.{runner_id.removeprefix('plugin:').replace('/', '.')}",
        runner=runner_id,
        config=with_model(wanted.config, form, wanted.model),
        event_types=[],
        scope=Scope(type="agent"),
    )


def envelope_for(wanted: Wanted, agent: str) -> EventEnvelope:
    """The event that starts the run."""
    return EventEnvelope(
        event_type="message.received",
        input=Input(text=wanted.text),
        agent=agent,
        conversation_id=wanted.conversation or new_id(),
        source="api",
    )


def tell_what_next(pauses: list[dict[str, Any]]) -> None:
    """Say what a run waits for, and with which commands it is decided."""
    for pause in pauses:
        if pause["status"] in WAITING:
            what_next(pause)


def exit_status(status: str, *, interrupted: bool) -> int:
    """The command's exit status for a run's."""
    code = STATUS_OF_RUN.get(status, FAILED)
    return INTERRUPTED if interrupted and code == CANCELLED else code


async def _run(host: Host, wanted: Wanted, agent: str) -> int:
    workspace = host.settings.workspace
    show = Show(as_json=wanted.as_json)
    async with interrupts() as interrupted:
        accepted = await host.accept(envelope_for(wanted, agent), Caller(workspace, "cli", "cli"))
        if accepted.run is None:
            show_error(f"the agent took no run: {accepted.outcome}")
            return FAILED
        run_id = accepted.run.run_id

        async def results() -> AsyncIterator[Any]:
            async for batch in host.runs.watch(workspace, run_id):
                for result in batch:
                    yield result

        try:
            await follow(
                until_paused(results()),
                show.result,
                interrupted,
                lambda: host.cancel(workspace, run_id, reason="interrupted at the terminal", actor="cli"),
            )
        finally:
            show.end()
        record = await host.runs.record(workspace, run_id)
        if record.status not in TERMINAL_STATUSES:
            page = await host.pauses.page(
                Caller(workspace, "cli", "cli", rights=frozenset({"admin"})), run_id=run_id
            )
            tell_what_next([msgspec.to_builtins(pause) for pause in page.items])
            note("then it goes on when a server runs on this data directory: hostler serve")
            return PAUSED
        return exit_status(record.status, interrupted=interrupted.is_set())
