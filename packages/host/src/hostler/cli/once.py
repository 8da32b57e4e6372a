"""One run, in this process or through the server that has the data directory."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hostler.cli.output import CANCELLED, FAILED, INTERRUPTED, STATUS_OF_RUN, show_error, write_line
from hostler.config import Settings, default_data_dir, load_config
from hostler.domain.agents import AgentSpec, Scope
from hostler.domain.events import Caller
from hostler.feed import StoredResult
from hostler.host import Host
from hostler.lock import read_holder
from hostler.plugins.sources import Folder, PluginSource, SingleFile, identity_of
from hostler.stores import agents
from hostler_protocol.content import text_of
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.ids import new_id
from hostler_protocol.results import (
    MessageCompleted,
    MessageDelta,
    RunFailed,
    decode_data,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for."""

    target: str
    text: str
    as_json: bool
    conversation: str | None
    config: dict[str, Any]
    config_file: Path | None
    data: Path | None
    url: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """A plugin on disk and the runner that is meant; None: its only one."""

    source: PluginSource
    runner: str | None


def local_target(target: str) -> LocalTarget | None:
    """A plugin folder or file that a target names; None where it is an agent's name.

    InvalidArgumentError where it looks like a path and leads nowhere.
    """
    path_text, colon, name = target.rpartition(":")
    if path_text.endswith(".py"):
        if not name:
            raise InvalidArgumentError(f"{target}: name the class as well, like {path_text}:MyRunner")
        if not Path(path_text).is_file():
            raise InvalidArgumentError(f"there is no file {path_text}")
        return LocalTarget(SingleFile(Path(path_text).resolve(), name), None)
    if target.endswith(".py"):
        raise InvalidArgumentError(f"{target}: name the class as well, like {target}:MyRunner")
    for text, runner in ((target, None), (path_text, name or None)):
        if text and Path(text).is_dir():
            return LocalTarget(Folder(Path(text).resolve()), runner)
    if "/" in target or target.startswith((".", "~")):
        raise InvalidArgumentError(f"there is no plugin folder {path_text if colon else target}")
    return None


async def run_once(wanted: Wanted) -> int:
    """Run, show what comes, and give the exit status."""
    data_dir = (wanted.data or default_data_dir()).expanduser().resolve()
    target = local_target(wanted.target)
    if wanted.url is not None or read_holder(data_dir) is not None:
        from hostler.cli.remote import run_through_server

        return await run_through_server(wanted, target, data_dir)
    settings = Settings(data_dir=data_dir, shutdown_grace_seconds=0.0)
    async with Host.open(settings) as host:
        if wanted.config_file is not None:
            await host.apply(load_config(wanted.config_file), actor="command line")
        async with _agent(host, wanted, target) as name:
            return await _run(host, wanted, name)


@asynccontextmanager
async def _agent(host: Host, wanted: Wanted, target: LocalTarget | None) -> AsyncIterator[str]:
    """The name of the agent to run: a stored one, or one made for this run alone."""
    if target is None:
        known = [agent.name for agent in await host.bindery.agents(host.settings.workspace)]
        if wanted.target not in known:
            listed = ", ".join(known) or "none"
            raise NotFoundError(
                f"there is no agent {wanted.target!r} (known: {listed}); "
                "a runner of your own is named like file.py:Class"
            )
        if wanted.config:
            raise InvalidArgumentError(
                "--set is for plugin folders and files; an agent has its own configuration"
            )
        yield wanted.target
        return
    plugin_key = host.supervisor.add(target.source)
    connection = await host.supervisor.connection(plugin_key)
    runner = _runner_name(target, list(connection.runners))
    name = f"run.{plugin_key}.{runner}"
    spec = AgentSpec(
        name=name,
        runner=identity_of(target.source).runner_id(runner),
        config=wanted.config,
        event_types=[],
        scope=Scope(type="agent"),
    )
    ws = host.settings.workspace
    await host.db.write(lambda tx: agents.apply(tx, ws, spec))
    host.bindery.changed(ws)
    try:
        yield name
    finally:
        await host.db.write(lambda tx: agents.delete(tx, ws, name))


def _runner_name(target: LocalTarget, offered: list[str]) -> str:
    listed = ", ".join(sorted(offered)) or "none"
    if target.runner is not None:
        if target.runner not in offered:
            raise NotFoundError(f"the plugin has no runner {target.runner!r}; its runners are: {listed}")
        return target.runner
    if len(offered) != 1:
        raise InvalidArgumentError(f"the plugin has several runners ({listed}); name one: folder:runner")
    return offered[0]


async def _run(host: Host, wanted: Wanted, agent: str) -> int:
    workspace = host.settings.workspace
    caller = Caller(workspace, "cli", "cli")
    envelope = EventEnvelope(
        event_type="message.received",
        input=Input(text=wanted.text),
        agent=agent,
        conversation_id=wanted.conversation or new_id(),
        source="api",
    )
    accepted = await host.accept(envelope, caller)
    if accepted.run is None:
        show_error(f"the agent took no run: {accepted.outcome}")
        return FAILED
    run_id = accepted.run.run_id
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    canceller = asyncio.create_task(_cancel_when(host, workspace, run_id, interrupted))
    show = Show(as_json=wanted.as_json)
    try:
        async for batch in host.watch(workspace, run_id):
            for result in batch:
                show.result(result)
    finally:
        canceller.cancel()
        await asyncio.gather(canceller, return_exceptions=True)
        show.end()
    record = await host.run_record(workspace, run_id)
    status = STATUS_OF_RUN.get(record.status, FAILED)
    return INTERRUPTED if interrupted.is_set() and status == CANCELLED else status


async def _cancel_when(host: Host, workspace: str, run_id: str, interrupted: asyncio.Event) -> None:
    await interrupted.wait()
    await host.cancel(workspace, run_id, reason="interrupted at the terminal", actor="cli")


class Show:
    """Writes results as they come: text for people, or one JSON line each."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._streamed = False
        self._open_line = False

    def result(self, result: StoredResult) -> None:
        """Show one result."""
        if self._as_json:
            write_line(result.json)
            return
        raw = msgspec.json.decode(result.json, type=_DataOnly).data
        try:
            data = decode_data(result.type, raw)
        except InvalidArgumentError:
            return  # a type this version does not know: kept in the journal, nothing to show
        match data:
            case MessageDelta(chunk=chunk):
                self._streamed = True
                self._write(text_of(chunk.content))
            case MessageCompleted(message=message):
                if not self._streamed:
                    self._write(text_of(message.content))
                self._streamed = False
                self.end()
            case RunFailed(error=error):
                self.end()
                show_error(error)

    def end(self) -> None:
        """Finish a line that is not finished."""
        if self._open_line:
            self._write("\n")
            self._open_line = False

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._open_line = not text.endswith("\n")


class _DataOnly(msgspec.Struct):
    data: msgspec.Raw
