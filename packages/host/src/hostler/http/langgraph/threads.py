"""A thread is a conversation: its runs, its messages, and what it waits for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from hostler.domain.narrow_callers import check_conversation, stored_event_id
from hostler.domain.record import Record
from hostler.http.dialects.answers import keyed_event_id
from hostler.http.dialects.paused_calls import WAITING, waiting_calls
from hostler.http.langgraph.fold import RUN
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import conversation_metadata, conversations, pauses, runs
from hostler.storage.stores.run_rows import Run
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import new_id
from hostler_protocol.runs import ACTIVE_STATUSES, TERMINAL_STATUSES, RunStatus

MAX_ACTIVE_RUNS = 100
"""Runs of a thread that are not over and are looked at: those that wait for each other."""
NOT_OVER: frozenset[RunStatus] = frozenset({*ACTIVE_STATUSES, "queued"})
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]


class Thread(Record):
    """A thread as far as it is stored. `run`: its newest run. `known`: whether there is any data of it.

    `metadata`: what its clients gave it, written last at `described_at` (UTC epoch milliseconds).
    """

    run: Run | None
    known: bool = False
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    described_at: int = 0

    @property
    def all_metadata(self) -> dict[str, Any]:
        """The metadata, with those that the host knows: of the agent of the newest run."""
        return {**self.metadata, **metadata_of(self.run)}


def metadata_of(run: Run | None) -> dict[str, str]:
    """Return the metadata that a thread has from its newest run."""
    return {} if run is None else {"graph_id": run.agent_name, "assistant_id": run.agent_name}


def read_thread(tx: Tx, ws: str, thread_id: str, *, agent: str | None = None) -> Thread:
    """Read what is stored of a thread itself. `agent`: look at its runs only."""
    found = runs.page(tx, ws, agent_name=agent, conversation_id=thread_id, limit=1)
    described = conversation_metadata.find(tx, ws, thread_id)
    metadata, at = ({}, 0) if described is None else (described.metadata, described.updated_at)
    known = bool(found or described) or conversations.known(tx, ws, thread_id)
    return Thread(found[0] if found else None, known, metadata, at)


def statuses_of(tx: Tx, ws: str, threads: Sequence[Thread]) -> list[ThreadStatus]:
    """Return how threads are, in their order: one query for all."""
    newest = [thread.run for thread in threads]
    active = [run.run_id for run in newest if run is not None and run.status not in TERMINAL_STATUSES]
    waiting = pauses.waiting_runs(tx, ws, active) if active else frozenset[str]()
    return [thread_status(run, waits=run is not None and run.run_id in waiting) for run in newest]


def thread_status(run: Run | None, *, waits: bool) -> ThreadStatus:
    """Return how a thread is, by its newest run, and whether that waits, perhaps with its process."""
    if run is None:
        return "idle"
    if waits:
        return "interrupted"
    if run.status in NOT_OVER:
        return "busy"
    if run.status == "paused":
        return "interrupted"
    return "error" if run.status in ("failed", "timeout") else "idle"


def moment(milliseconds: int) -> str:
    """Return a time as the LangGraph server writes it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def new_thread_id(request: ApiRequest) -> str:
    """Return the id of a thread that has nothing yet: it says when it was made, and is stored nowhere.

    The same for requests with the same Idempotency-Key.
    """
    name = keyed_event_id(request)
    return new_id() if name is None else f"thread-{name}"


def made_at(thread_id: str) -> int | None:
    """Return when a host made the id of a thread, in UTC epoch milliseconds; None for any other id."""
    try:
        name = uuid.UUID(thread_id)
    except ValueError:
        return None
    return name.int >> 80 if name.version == 7 and str(name) == thread_id else None


async def check_thread(request: ApiRequest, thread_id: str) -> None:
    """Raise NotFoundError for a thread that has nothing, unless its id is one that a host has made."""
    check_conversation(request.caller, thread_id)
    if made_at(thread_id) is not None:
        return
    if not await request.state.host.db.read(
        lambda tx: conversations.known(tx, request.workspace_id, thread_id)
    ):
        raise no_thread(thread_id)


async def thread_of(request: ApiRequest) -> str:
    """Return the thread that the path of a request names. NotFoundError as `check_thread`."""
    thread_id = request.parameters["thread"]
    await check_thread(request, thread_id)
    return thread_id


def no_thread(thread_id: str) -> NotFoundError:
    """Return the error of a thread that is not there."""
    return NotFoundError(f"there is no thread {thread_id[:200]!r}")


async def latest_run(request: ApiRequest, thread_id: str) -> Run | None:
    """Return the newest run of a thread, if it has one."""
    found = await runs_of(request, thread_id, limit=1)
    return found[0] if found else None


async def runs_of(
    request: ApiRequest, thread_id: str, *, limit: int, statuses: frozenset[RunStatus] | None = None
) -> list[Run]:
    """Return runs of a thread, newest first; of a narrow caller's agent only."""
    return await request.state.host.db.read(
        lambda tx: runs_in(tx, request, thread_id, limit=limit, statuses=statuses)
    )


def runs_in(
    tx: Tx, request: ApiRequest, thread_id: str, *, limit: int, statuses: frozenset[RunStatus] | None = None
) -> list[Run]:
    """Return runs as `runs_of` does, in a transaction."""
    scope = request.caller.scope
    return runs.page(
        tx,
        request.workspace_id,
        statuses=statuses,
        agent_name=None if scope is None else scope.agent,
        conversation_id=thread_id,
        limit=limit,
    )


async def active_runs(request: ApiRequest, thread_id: str) -> list[Run]:
    """Return the runs of a thread that work or wait for their turn, newest first, without a request's own."""
    found = await runs_of(request, thread_id, limit=MAX_ACTIVE_RUNS, statuses=NOT_OVER)
    own = own_event_id(request)
    return [run for run in found if own is None or run.event_id != own]


def own_event_id(request: ApiRequest) -> str | None:
    """Return the id of the stored event of a request with an Idempotency-Key, None for one without."""
    name = keyed_event_id(request)
    return None if name is None else stored_event_id(request.caller, name)


async def waiting_ids(request: ApiRequest, run: Run) -> set[str]:
    """Return the host's ids of the calls of a run that still wait."""
    if run.status in TERMINAL_STATUSES:
        return set()
    page = await request.state.host.pauses.page(request.caller, run_id=run.run_id, statuses=WAITING, limit=1)
    return {call.call_id for pause in page.items for call in waiting_calls(pause)}


def thread_record(
    thread_id: str,
    found: Thread,
    status: ThreadStatus = "idle",
    *,
    values: bytes | None = None,
    interrupts: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return a thread as its clients read it."""
    run = found.run
    made = made_at(thread_id)
    if made is None:
        made = run.created_at if run is not None else found.described_at
    changed = max(made, found.described_at, 0 if run is None else run.finished_at or run.created_at)
    return {
        "thread_id": thread_id,
        "created_at": moment(made),
        "updated_at": moment(changed),
        "state_updated_at": moment(changed),
        "metadata": found.all_metadata,
        "status": status,
        "config": {},
        "values": None if values is None else msgspec.Raw(values),
        "interrupts": {f"{RUN}_{run.run_id}": list(interrupts)} if run is not None and interrupts else {},
        "error": None,
    }
