"""Replay recorded runs: plugins in real processes without network, whose only host is a tape."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.config_form import configure
from hostler.domain.record import Record
from hostler.domain.tapes import Tape
from hostler.journal.replay_session import REPLAY_SECONDS, Replayed, ReplaySession
from hostler.plugins import without_network
from hostler.plugins.connection import PluginConnection
from hostler.plugins.pins import PluginPins
from hostler.plugins.source import Folder, SingleFile, identity_of
from hostler.plugins.supervisor import FindSandbox, Supervisor
from hostler.sandbox.probe import find_sandbox
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest
from hostler_protocol.methods import RunStartParams

_CUT_OFF = (sys.executable, "-I", "-S", str(Path(without_network.__file__)))
_PROBE_SECONDS = 10.0


class Cast(Record):
    """The plugin of a replay and its runner; None: the one with the recorded name, or the only one."""

    source: Folder | SingleFile
    runner: str | None = None


class Changes(Record):
    """Changes of the recorded configuration: another one as a whole, and single values."""

    config: Mapping[str, Any] | None = None
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class Replayer:
    """Replays tapes, one after the other. `network`: why plugins still have network access, or None."""

    supervisor: Supervisor
    network: str | None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        environments: Path | None = None,
        *,
        sandbox: FindSandbox = find_sandbox,
        pins: PluginPins | None = None,
    ) -> AsyncIterator[Replayer]:
        """Open a replayer for a block, which ends its processes.

        `environments`: folder of built ones. `sandbox` and `pins`: as of the supervisor.
        """
        network = await why_not_cut_off()
        prefix = () if network is not None else _CUT_OFF
        with tempfile.TemporaryDirectory(prefix="hostler-replay-") as folder:
            supervisor = Supervisor(
                Path(folder), environments=environments, command_prefix=prefix, sandbox=sandbox, pins=pins
            )
            try:
                yield cls(supervisor, network)
            finally:
                await supervisor.close(0)

    async def replay(
        self, tape: Tape, cast: Cast, changes: Changes | None = None, *, seconds: float = REPLAY_SECONDS
    ) -> Replayed:
        """Replay one run. InvalidArgumentError, NotFoundError or PluginStartError if that is impossible."""
        if tape.run.own_pause:
            raise InvalidArgumentError(
                f"run {tape.run.run_id} cannot be replayed: "
                "it went on from a pause of its runner's own, whose state is not recorded"
            )
        connection = await self._connection(cast)
        manifest = _runner(tape, cast, connection)
        start = RunStartParams(
            runner_id=manifest.id,
            runner_name=manifest.name,
            context=_context(tape, manifest, changes or Changes()),
        )
        replayed = await ReplaySession(tape, connection, start, seconds).run()
        if connection.closed.done():  # it crashed: the next replay gets a new process at once
            await self.supervisor.remove(connection.expected_key)
        return replayed

    async def _connection(self, cast: Cast) -> PluginConnection:
        key = identity_of(cast.source).key
        if key not in self.supervisor:
            self.supervisor.add(cast.source)
        return await self.supervisor.connection(key)


async def why_not_cut_off() -> str | None:
    """Return why plugins of replays keep network access on this system, or None if it is blocked."""
    process = await asyncio.create_subprocess_exec(
        *_CUT_OFF, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return "trying to cut it off took too long"
    return None if process.returncode == 0 else said.decode("utf-8", "replace").strip()


def _runner(tape: Tape, cast: Cast, connection: PluginConnection) -> AgentRunnerManifest:
    offered = connection.runners
    wanted = cast.runner
    if wanted is None:
        recorded = split_runner_id(tape.run.runner_id)[1]
        wanted = (
            recorded if recorded in offered else next(iter(offered), "") if len(offered) == 1 else recorded
        )
    if wanted not in offered:
        listed = ", ".join(sorted(offered)) or "none"
        raise NotFoundError(f"the plugin has no runner {wanted!r}; its runners are: {listed}")
    return offered[wanted]


def _context(tape: Tape, manifest: AgentRunnerManifest, changes: Changes) -> Any:
    """Return the recorded context with the changed configuration and as much time as the run had.

    Secrets stay references: no replay reaches a service that needs one.
    """
    known = {item.name for item in manifest.config_schema} | {"timeout"}
    stored = tape.run.config if changes.config is None else changes.config
    kept = {name: value for name, value in stored.items() if name in known or changes.config is not None}
    configuration = configure(manifest.config_schema, {**kept, **changes.values})
    context = tape.context
    runtime = context.runtime
    if runtime.deadline_at is not None:
        left = max(0.0, runtime.deadline_at - tape.began_at)
        runtime = msgspec.structs.replace(runtime, deadline_at=time.time() + left)
    return msgspec.structs.replace(context, config=configuration.values, runtime=runtime)
