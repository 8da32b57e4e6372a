"""Replays that the host itself makes, of its own runs: one at a time, in processes of their own.

As with `hostler replay`, the runner has no network and no host but the recording, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hostler.domain.agents import AgentSpec
from hostler.domain.allowances import Allowances
from hostler.domain.config_overrides import ConfigOverrides
from hostler.domain.record import Record
from hostler.domain.tapes import Tape, read_tape
from hostler.domain.trials import is_trial_agent
from hostler.domain.written_secrets import without_secrets
from hostler.host.bundled import shipped_plugin
from hostler.host.plugin_pins import StoredPins
from hostler.journal.export import tape_of
from hostler.journal.replay_session import REPLAY_SECONDS, Replayed
from hostler.journal.replayer import Cast, Changes, Replayer
from hostler.plugins.pins import UnrecordedPins
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import FindSandbox, Supervisor, environments_folder
from hostler.storage.port import Database
from hostler.storage.stores import agents, audit, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.run_rows import Run
from hostler.version import VERSION
from hostler_protocol.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    PluginStartError,
    RateLimitedError,
    UnauthorizedError,
)
from hostler_protocol.ids import split_runner_id

MAX_WAITING = 4
"""Replays that wait for the one that is made, each with its request alone: recordings are read in turn."""
MAX_WAITING_OF_WORKSPACE = 2
"""Of one workspace: the rest of the places is for others."""
START_SECONDS = 120.0
"""The most that building the environment and starting the plugin may take. A plugin whose runs were recorded
has an environment, unless it was unused for weeks."""
RETRY_SECONDS = 10.0


class HostReplay(Record):
    """A replay's outcome. `position`: the place of the divergence in the journal, None behind its end.

    `network`: why the runner could reach the network; None: it could not.
    """

    replayed: Replayed
    position: int | None
    network: str | None


@dataclass(slots=True)
class Replays:
    """Makes replays. `seconds`: the most that one may take, from when its plugin has started, which takes
    `start_seconds` at most. `sandbox` is that of the host, whose users and audit are the same.
    """

    db: Database
    blobs: BlobFolder
    data_dir: Path
    supervisor: Supervisor
    pins: StoredPins
    allowances: Allowances
    sandbox: FindSandbox
    seconds: float = REPLAY_SECONDS
    start_seconds: float = START_SECONDS
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: Counter[str] = field(default_factory=Counter)
    """By workspace."""

    async def replay(
        self,
        workspace_id: str,
        run_id: str,
        *,
        actor: str,
        config: ConfigOverrides | None = None,
        agent_version: int | None = None,
    ) -> HostReplay:
        """Replay a run with its runner, or with runner and configuration of another version of its agent.

        `config` changes single values of the configuration. NotFoundError; InvalidArgumentError for a run
        that cannot be replayed, and for changes of a secret; UnauthorizedError for a runner that the
        workspace may not use, and for a change beside a secret that the caller may not make; ConflictError
        for a plugin that is not as it was confirmed; PluginStartError; RateLimitedError.
        """
        async with self._place(workspace_id):
            run = await self.db.read(lambda tx: runs.get(tx, workspace_id, run_id))
            tape = read_tape(await tape_of(self.db, self.blobs, workspace_id, run_id, host_version=VERSION))
            whole = None
            runner_id, known = tape.run.runner_id, tape.run.config
            if agent_version is not None:
                runner_id, known = await self._version(run, agent_version)
                whole = known
            may = self.allowances.of(workspace_id)
            if not may.runner(runner_id) and not is_trial_agent(run.agent_id):
                raise UnauthorizedError(may.refused("runner", runner_id))
            if config is not None:
                spec = AgentSpec(name=tape.run.agent, runner=runner_id, config=dict(known))
                config.check(spec, self.supervisor.catalog.form_of(runner_id))
            values = {} if config is None else config.values
            source = await self._source(split_runner_id(runner_id)[0])
            body = {"config": sorted(values), "agent_version": agent_version}
            await self.db.write(
                lambda tx: audit.record(tx, workspace_id, actor, "run.replayed", run_id, body)
            )
            cast = Cast(source, split_runner_id(runner_id)[1])
            return await self._replay(tape, cast, Changes(config=whole, values=values))

    @asynccontextmanager
    async def _place(self, workspace_id: str) -> AsyncIterator[None]:
        """Wait for the turn of a replay. RateLimitedError while too many wait."""
        if self._turn.locked() or self._waiting.total():
            if self._waiting.total() >= MAX_WAITING:
                raise RateLimitedError("enough replays are waiting: try again", RETRY_SECONDS)
            if self._waiting[workspace_id] >= MAX_WAITING_OF_WORKSPACE:
                raise RateLimitedError("enough replays of this workspace wait: try again", RETRY_SECONDS)
        self._waiting[workspace_id] += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting[workspace_id] -= 1
            if not self._waiting[workspace_id]:
                del self._waiting[workspace_id]
        try:
            yield
        finally:
            self._turn.release()

    async def _replay(self, tape: Tape, cast: Cast, changes: Changes) -> HostReplay:
        """Replay in processes of its own: the plugin as it was confirmed, with the confirmed packages."""
        environments, pins = environments_folder(self.data_dir), UnrecordedPins(self.pins)
        try:
            async with (
                asyncio.timeout(self.start_seconds + self.seconds) as bound,
                Replayer.open(environments, sandbox=self.sandbox, pins=pins) as replayer,
            ):
                replayed = await replayer.replay(tape, cast, changes, seconds=self.seconds)
                return HostReplay(replayed, _position(tape, replayed), replayer.network)
        except TimeoutError:
            if not bound.expired():
                raise
            raise PluginStartError(
                f"the plugin of this replay did not start within {self.start_seconds:g} s: let a run start "
                "it first, which keeps its environment"
            ) from None

    async def _version(self, run: Run, version: int) -> tuple[str, dict[str, Any]]:
        named = await self.db.read(lambda tx: agents.version(tx, run.workspace_id, run.agent_id, version))
        if named is None:
            raise NotFoundError(f"agent {run.agent_name!r} has no version {version}")
        spec = without_secrets(named.spec, self.supervisor.catalog.form_of)
        return spec.runner, dict(spec.config)

    async def _source(self, plugin_key: str) -> Folder:
        source = self.supervisor.source_of(plugin_key)
        if source is None and (shipped := shipped_plugin(plugin_key)) is not None:
            return Folder(shipped)
        if source is None:
            raise NotFoundError(f"plugin {plugin_key} is not among the plugins of this host any more")
        if not isinstance(source, Folder):
            raise InvalidArgumentError(
                f"plugin {plugin_key} is no folder of this host, so it cannot be replayed here: "
                "`hostler replay RUN --runner TARGET` replays with a runner on your machine"
            )
        status = await self.pins.status(plugin_key, source)
        if status is not None and status.changed is not None:
            raise ConflictError(
                f"plugin {plugin_key}: {status.changed}, since it was confirmed: look at it, then "
                f"`hostler plugins confirm {plugin_key}`"
            )
        return replace(source, network=())


def _position(tape: Tape, replayed: Replayed) -> int | None:
    found = replayed.divergence
    return None if found is None else tape.position_of(found.step)
