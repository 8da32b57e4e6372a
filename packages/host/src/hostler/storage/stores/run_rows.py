"""Values of the runs store: new and stored runs, and results of its functions.

They are structs because every run creates some: a frozen dataclass takes ten times as long to create.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.runs import HOLDS_LANE
from hostler.storage.port import Row
from hostler.storage.stores.hosts import ALONE, Membership
from hostler_protocol.content import Usage
from hostler_protocol.ids import new_id
from hostler_protocol.runs import RunStatus

_usages = msgspec.json.Decoder(Usage)
_objects = msgspec.json.Decoder(dict[str, Any])


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to open. Times are UTC epoch milliseconds."""

    workspace_id: str
    run_id: str
    agent_id: str
    agent_name: str
    agent_version: int
    runner_id: str
    lane: str
    event_id: str | None = None
    parent_run_id: str | None = None
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    requester: str | None = None
    parallel: bool = False
    """The run neither holds its lane nor waits for it."""
    priority: int = 0
    not_before: int | None = None
    deadline_at: int | None = None
    binding: dict[str, Any] | None = None
    ordinal: int | None = None
    """Position among the queued runs; None: after all earlier ones."""
    follows: str | None = None
    """The ended run whose unread messages it takes over."""
    gathering: str | None = None
    """Debounce: the author for whose further messages it waits until `not_before`, at most `gather_until`."""
    gather_until: int | None = None
    gathered_bytes: int = 0


class Run(msgspec.Struct, frozen=True):
    """A stored run. Times are UTC epoch milliseconds; `cost` is a decimal number as text.

    The defaults are those of a run that was just opened.
    """

    workspace_id: str
    run_id: str
    agent_id: str
    agent_name: str
    agent_version: int
    runner_id: str
    lane: str
    event_id: str | None
    parent_run_id: str | None
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    requester: str | None
    parallel: bool
    priority: int
    not_before: int | None
    status: RunStatus
    host_id: str | None
    host_epoch: int
    """The host's epoch in which it was claimed."""
    binding: dict[str, Any]
    created_at: int
    deadline_at: int | None
    ordinal: int
    follows: str | None
    """The ended run whose unread messages it took over."""
    gathered: int
    """Debounced messages of its turn; 0: it was not debounced."""
    status_code: str | None = None
    attempt: int = 1
    base_attempt: int = 1
    """The first attempt whose journal this one resumes from; its own number if it started anew."""
    crashes: int = 0
    position: int = 1
    sequence: int = 0
    kept_sequence: int = 0
    """Sequence of the last completed message, up to which a new attempt keeps results."""
    cancel_reason: str | None = None
    cancel_grace: int | None = None
    """Time for a cancelled runner to end by itself, in milliseconds; None: the host's default."""
    cancel_requested_at: int | None = None
    cancel_requested_by: str | None = None
    """Who cancelled it first: a subject, `run:ID`, `host` or `clock`."""
    grant_json: str | None = None
    usage: Usage | None = None
    cost: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    steers: int = 0
    """Messages that it absorbed and has not pulled."""

    @property
    def member(self) -> Membership:
        """The host and epoch that claimed it; meaningless for a run that was never claimed."""
        return Membership(self.host_id or "", self.host_epoch)


class RunAttempt(NamedTuple):
    """One attempt of a run."""

    run_id: str
    attempt: int


class Appended(msgspec.Struct, frozen=True):
    """The position of the first entry and the sequence of the first result (of the next one, if none)."""

    position: int
    sequence: int


class Moved(msgspec.Struct, frozen=True):
    """The run changed its status. `position` and `sequence` are those of the first entry."""

    before: RunStatus
    attempt: int
    position: int
    sequence: int
    steers: int = 0
    """Messages that the run absorbed and has not pulled."""
    wanted: bool = False
    """The run ended, and the entry of a webhook names the event."""
    sends: bool = False
    """The run ended, and the outbox has something of it."""


class Fenced(msgspec.Struct, frozen=True):
    """Nothing was written, because of the run's present status or attempt."""

    status: RunStatus
    attempt: int


def new_run_after(
    run: Run,
    agent: Agent,
    *,
    event_id: str,
    requester: str | None,
    lane: str,
    run_id: str | None = None,
    parallel: bool = False,
    ordinal: int | None = None,
    follows: str | None = None,
) -> NewRun:
    """Build a run for `agent` in the conversation of `run`, with the same binding."""
    return NewRun(
        workspace_id=run.workspace_id,
        run_id=run_id or new_id(),
        agent_id=agent.agent_id,
        agent_name=agent.name,
        agent_version=agent.version,
        runner_id=agent.spec.runner,
        event_id=event_id,
        bot_id=run.bot_id,
        conversation_id=run.conversation_id,
        thread_id=run.thread_id,
        requester=requester,
        lane=lane,
        parallel=parallel,
        priority=agent.spec.priority,
        binding=dict(run.binding),
        ordinal=ordinal,
        follows=follows,
    )


def opened_run(run: NewRun, status: RunStatus, claim: Membership | None, *, ordinal: int, now: int) -> Run:
    """Return a new run as it is stored, with its first entry journalled."""
    return Run(
        **{name: getattr(run, name) for name in _GIVEN},
        status=status,
        binding=run.binding or {},
        created_at=now,
        ordinal=ordinal,
        host_id=None if claim is None else claim.host_id,
        host_epoch=ALONE if claim is None else claim.epoch,
        gathered=0 if run.gathering is None else 1,
    )


def new_row(run: NewRun, opened: Run) -> dict[str, Any]:
    """Return the columns of a new run."""
    holds = opened.status in HOLDS_LANE and not run.parallel
    return {
        **msgspec.structs.asdict(run),
        **msgspec.structs.asdict(opened),
        "active_lane": run.lane if holds else None,
        "parallel": int(run.parallel),
        "binding": msgspec.json.encode(opened.binding).decode(),
    }


def run_of(row: Row) -> Run:
    """Convert a row of `runs`."""
    usage = None if row["usage"] is None else _usages.decode(row["usage"])
    binding = _objects.decode(row["binding"])
    return Run(*_columns({**row, "parallel": bool(row["parallel"]), "binding": binding, "usage": usage}))


_columns = itemgetter(*Run.__struct_fields__)
_GIVEN = [name for name in NewRun.__struct_fields__ if name in Run.__struct_fields__]
_GIVEN = [name for name in _GIVEN if name not in {"binding", "ordinal"}]  # these may be absent in a NewRun
