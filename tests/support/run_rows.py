"""Short ways to open, claim, move and read runs in a store."""

from __future__ import annotations

from typing import Any

from hostler.domain.slots import Slots
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores import runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import Deltas, NewEntry
from hostler.storage.stores.runs import Appended, Fenced, Moved, NewRun
from hostler_protocol.runs import RunStatus

H1 = Membership("h1")


def new(run_id: str, *, lane: str | None = None, workspace: str = "w1", **fields: Any) -> NewRun:
    """A run to open; `fields` replace those of an echo agent."""
    agent = {
        "agent_id": "a1",
        "agent_name": "echo",
        "agent_version": 1,
        "runner_id": "plugin:acme/echo/default",
    }
    return NewRun(
        workspace_id=workspace, run_id=run_id, lane=lane or f"lane of {run_id}", **{**agent, **fields}
    )


async def opened(database: SqlDatabase, *news: NewRun, by: Membership | None = H1) -> list[str]:
    return [(await database.write(lambda tx, n=n: runs.open(tx, n, by))).status for n in news]  # type: ignore[misc]


async def move(
    database: SqlDatabase, run_id: str, attempt: int | None, to: RunStatus, **more: Any
) -> Moved | Fenced:
    return await database.write(
        lambda tx: runs.transition(tx, run_id, attempt, to, cause="test", actor="t", **more)
    )


async def claim(database: SqlDatabase, limit: int = 10, member: Membership = H1, **more: Any) -> list[str]:
    claimed = await database.write(lambda tx: claims.claim(tx, member, Slots(limit, **more), []))
    return [one.run_id for one in claimed.runs]


def delta(number: int) -> NewEntry:
    return NewEntry("result", "message.delta", f'{{"data":{{"n":{number}}}}}')


def result(result_type: str, text: str = "{}") -> NewEntry:
    return NewEntry("result", result_type, f'{{"data":{text}}}'.encode())


async def append(
    database: SqlDatabase, run_id: str, attempt: int, *entries: NewEntry | Deltas
) -> Appended | Fenced:
    return await database.write(lambda tx: runs.append(tx, run_id, attempt, entries))


async def at(database: SqlDatabase, run_id: str) -> runs.Run:
    return await database.read(lambda tx: runs.get(tx, "w1", run_id))


async def reach(database: SqlDatabase, run_id: str, status: RunStatus) -> None:
    """Open a run and bring it to `status`."""
    await opened(database, new(run_id), by=None if status == "queued" else H1)
    if status not in {"queued", "claimed"}:
        await move(database, run_id, None, "running")
        if status != "running":
            await move(database, run_id, None, status)
