"""Replays that the host itself makes, of its own runs: one at a time, in processes of their own.

As with `hostler replay`, the runner has no network and no host but the recording, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hostler.domain.tapes import Tape, read_tape
from hostler.domain.written_secrets import without_secrets
from hostler.host.bundled import shipped_runner
from hostler.host.plugin_pins import StoredPins
from hostler.journal.export import tape_of
from hostler.journal.replay_session import Replayed
from hostler.journal.replayer import Cast, Changes, Replayer
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor, environments_folder
from hostler.storage.port import Database
from hostler.storage.stores import agents, audit, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.version import VERSION
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, RateLimitedError
from hostler_protocol.ids import split_runner_id

MAX_WAITING = 4
"""Replays that wait for the one that is made: each is over within a minute, and holds its recording."""
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class HostReplay:
    """A replay's outcome. `position`: the place of the divergence in the journal, None behind its end.

    `network`: why the runner could reach the network; None: it could not.
    """

    replayed: Replayed
    position: int | None
    network: str | None


@dataclass(slots=True)
class Replays:
    """Makes replays. `seconds`: the most that one may take."""

    db: Database
    blobs: BlobFolder
    data_dir: Path
    supervisor: Supervisor
    pins: StoredPins
    seconds: float = 60.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: int = 0

    async def replay(
        self,
        workspace_id: str,
        run_id: str,
        *,
        actor: str,
        config: Mapping[str, Any] | None = None,
        agent_version: int | None = None,
    ) -> HostReplay:
        """Replay a run with its runner, or with runner and configuration of another version of its agent.

        `config` changes single values of the configuration. NotFoundError; InvalidArgumentError for a run
        that cannot be replayed; ConflictError for a plugin that is not as it was confirmed; RateLimitedError.
        """
        if self._waiting >= MAX_WAITING:
            raise RateLimitedError("enough replays are waiting: try again", RETRY_SECONDS)
        self._waiting += 1
        try:
            async with self._turn:
                made = await self._replay(workspace_id, run_id, config or {}, agent_version)
        finally:
            self._waiting -= 1
        body = {"identical": made.replayed.is_identical, "config": sorted(config or {})}
        await self.db.write(lambda tx: audit.record(tx, workspace_id, actor, "run.replayed", run_id, body))
        return made

    async def _replay(
        self, workspace_id: str, run_id: str, values: Mapping[str, Any], agent_version: int | None
    ) -> HostReplay:
        tape = read_tape(await tape_of(self.db, self.blobs, workspace_id, run_id, host_version=VERSION))
        runner_id, whole = tape.run.runner_id, None
        if agent_version is not None:
            runner_id, whole = await self._version(workspace_id, run_id, agent_version)
        plugin_key, runner = split_runner_id(runner_id)
        cast = Cast(await self._source(plugin_key), runner)
        async with Replayer.open(environments_folder(self.data_dir)) as replayer:
            changes = Changes(config=whole, values=values)
            replayed = await replayer.replay(tape, cast, changes, seconds=self.seconds)
            return HostReplay(replayed, _position(tape, replayed), replayer.network)

    async def _version(self, workspace_id: str, run_id: str, version: int) -> tuple[str, dict[str, Any]]:
        run = await self.db.read(lambda tx: runs.get(tx, workspace_id, run_id))
        named = await self.db.read(lambda tx: agents.version(tx, workspace_id, run.agent_id, version))
        if named is None:
            raise NotFoundError(f"agent {run.agent_name!r} has no version {version}")
        spec = without_secrets(named.spec, self.supervisor.catalog.form_of)
        return spec.runner, dict(spec.config)

    async def _source(self, plugin_key: str) -> Folder:
        source = self.supervisor.source_of(plugin_key)
        if source is None and (shipped := shipped_runner(plugin_key)) is not None:
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
        return replace(source, network=(), pin=None)


def _position(tape: Tape, replayed: Replayed) -> int | None:
    found = replayed.divergence
    return None if found is None else tape.position_of(found.step)
