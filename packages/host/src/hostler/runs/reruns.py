"""Retry a run with the same event, or fork a recorded run at one of its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from hostler.domain.agents import Agent
from hostler.domain.caller_tools import check_caller_tools
from hostler.domain.config_overrides import ConfigOverrides
from hostler.domain.lanes import lane_of
from hostler.domain.place import Place
from hostler.domain.tapes import inherit, read_tape
from hostler.domain.trials import is_trial_agent
from hostler.domain.written_secrets import Forms
from hostler.journal.export import tape_of
from hostler.runs.dispatch import Dispatcher
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, audit, events, runs
from hostler.storage.stores import run_sources as sources
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.run_rows import NewRun, Run, new_run_after
from hostler.storage.stores.run_sources import Source
from hostler.tools.caller_tools import check_schemas
from hostler_protocol.errors import (
    ConflictError,
    NotFoundError,
    UnavailableError,
)
from hostler_protocol.events import Input
from hostler_protocol.ids import new_id
from hostler_protocol.runs import TERMINAL_STATUSES


class _Origin(NamedTuple):
    run: Run
    agent: Agent


@dataclass(slots=True)
class Reruns:
    """Opens retries and forks. `accepting` returns whether the host accepts new work."""

    db: Database
    blobs: BlobFolder
    dispatcher: Dispatcher
    accepting: Callable[[], bool]
    host_version: str
    form_of: Forms

    async def retry(
        self, workspace_id: str, run_id: str, *, actor: str, agent_version: int | None = None
    ) -> str:
        """Open a run of the same event, by default with the current agent version. Return its id.

        It waits for the lane like any other. NotFoundError; ConflictError for a run that is not over, or
        whose event or agent is gone.
        """
        await self._check_room()

        def work(tx: Tx) -> str:
            run = runs.get(tx, workspace_id, run_id)
            if run.status not in TERMINAL_STATUSES:
                raise ConflictError(
                    f"run {run_id} is {run.status}: only a run that is over can be done again"
                )
            agent = _agent(tx, run, agent_version, current=True)
            new = _new_run(tx, run, agent, requester=run.requester)
            _open(tx, run, new, Source(run_id=new.run_id, source_run_id=run_id, kind="retry"))
            audit.record(tx, workspace_id, actor, "run.retried", run_id, {"run_id": new.run_id})
            return new.run_id

        return await self._open(work)

    async def fork(
        self,
        workspace_id: str,
        run_id: str,
        *,
        actor: str,
        at: int | None = None,
        position: int | None = None,
        edited: Input | None = None,
        config: ConfigOverrides | None = None,
        agent_version: int | None = None,
        effects: bool = False,
    ) -> str:
        """Open a run that goes on after step `at` of a recorded one (None: its last). Return its id.

        `position`: of the last entry of the journal that both share, in place of `at`. `config` changes
        values of its configuration. Calls up to there are answered from the recording. The run holds no lane.
        Without `effects` it changes nothing outside of itself. InvalidArgumentError for a step that does not
        exist, and for changes of a secret; UnauthorizedError for a change beside a secret that the caller may
        not make; NotFoundError; ConflictError if event or agent are gone.
        """
        await self._check_room()
        if edited is not None:
            check_caller_tools(edited.tools)
            await check_schemas(edited.tools)
        tape = read_tape(
            await tape_of(self.db, self.blobs, workspace_id, run_id, host_version=self.host_version)
        )
        inherited = inherit(tape, at if position is None else tape.step_at(position))

        def work(tx: Tx) -> str:
            run = runs.get(tx, workspace_id, run_id)
            agent = _agent(tx, run, agent_version, current=False)
            before = sources.find(tx, workspace_id, run_id)
            changed = {} if before is None or agent_version is not None else dict(before.config or {})
            if config is not None:
                current = {**agent.spec.config, **changed}
                config.check(replace(agent.spec, config=current), self.form_of(agent.spec.runner))
                changed |= config.values
            new = _new_run(tx, run, agent, requester=actor, alone=True)
            source = Source(
                run_id=new.run_id,
                source_run_id=run_id,
                kind="fork",
                step=inherited.step,
                base_attempt=tape.run.base_attempt,
                until_position=inherited.until_position,
                effects=effects,
                input=edited if edited is not None or before is None else before.input,
                config=changed or None,
            )
            _open(tx, run, new, source)
            body = {
                "run_id": new.run_id,
                "step": inherited.step,
                "effects": effects,
                "config": sorted(changed),
            }
            audit.record(tx, workspace_id, actor, "run.forked", run_id, body)
            return new.run_id

        return await self._open(work)

    async def _open(self, work: Callable[[Tx], str]) -> str:
        made = await self.db.write(work)
        self.dispatcher.queued()
        return made

    async def _check_room(self) -> None:
        if not self.accepting():
            raise UnavailableError("the host begins no runs now: it is starting or stopping; try again")
        await self.dispatcher.queue.check()


def _open(tx: Tx, run: Run, new: NewRun, source: Source) -> None:
    """Open a run with its source, and with all messages of the turn that the source had."""
    runs.open(tx, new, None)
    sources.share_turn(tx, run.workspace_id, run, new.run_id)
    sources.insert(tx, run.workspace_id, source)


def _agent(tx: Tx, run: Run, version: int | None, *, current: bool) -> Agent:
    """Return the named agent version, or else the current one or the run's own."""
    if version is not None:
        named = agents.version(tx, run.workspace_id, run.agent_id, version)
        if named is None:
            raise NotFoundError(f"agent {run.agent_name!r} has no version {version}")
        return named
    found = (
        agents.by_id(tx, run.workspace_id, run.agent_id)
        if current and not is_trial_agent(run.agent_id)
        else agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
    )
    if found is None:
        raise ConflictError(f"agent {run.agent_name!r} was deleted: name a version of it")
    return found


def _new_run(tx: Tx, run: Run, agent: Agent, *, requester: str | None, alone: bool = False) -> NewRun:
    event = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    if event is None or event.envelope is None:
        raise ConflictError(f"the event of run {run.run_id} was deleted: it cannot be done again")
    new = new_id()
    return new_run_after(
        run,
        agent,
        run_id=new,
        event_id=event.event_id,
        requester=requester,
        lane=lane_of(
            workspace_id=run.workspace_id,
            agent_id=agent.agent_id,
            place=Place(run.bot_id) if alone else Place.of(run),
            event_id=new if alone else event.event_id,
        ),
        parallel=alone or agent.spec.concurrency.on_busy == "parallel",
    )
