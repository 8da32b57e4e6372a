"""People of the second workspace try what belongs to the first: nothing of it is there for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hostler.host.host import Host
from hostler_protocol.errors import HostlerError, NotFoundError, StorageError
from simulation.life import TENANT, Life, wait
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.people import KEEPER

TRIES = 20
LOOK_SECONDS = 0.5


def plan(draft: Draft) -> None:
    """In lives with a second workspace: each message of the first one may be tried."""
    chance = draft.chance("strangers")
    events = [action.data["id"] for action in draft.actions if action.what == "message"]
    if not draft.tenant or not events:
        return
    for _ in range(chance.randint(1, 3)):
        at, event = chance.uniform(0, MAX_MOMENT * 0.7), chance.choice(events)
        draft.add(at, "trespass", event=event, host=chance.randint(0, 1))


async def trespass(life: Life, action: Action) -> None:
    """Look at the run of an event of the first workspace, do it again, cancel it and what it waits for."""
    run = await life.run_of(action.data["event"])
    if run is None:
        return
    tries: dict[str, Callable[[Host], Awaitable[Any]]] = {
        "look at": lambda h: h.runs.record(TENANT, run),
        "fork": lambda h: h.reruns.fork(TENANT, run, actor="stranger"),
        "cancel": lambda h: h.cancel(TENANT, run, reason="not theirs", actor="stranger"),
    }
    for what, work in tries.items():
        await _must_not_find(life, action, f"{what} run {run}", work)
    for _ in range(TRIES):
        for (pause,) in life.rows(
            f"SELECT pause_id FROM pauses WHERE run_id = '{run}' AND settled_at IS NULL"
        ):
            await _look_at(life, action, pause)
            return
        await wait(LOOK_SECONDS)


async def _look_at(life: Life, action: Action, pause: str) -> None:
    await _must_not_find(life, action, f"look at pause {pause}", lambda h: h.pauses.get(KEEPER, pause))
    page = await life.persist(action.data["host"], lambda h: h.pauses.page(KEEPER))
    for view in page.items:
        if life.rows(f"SELECT 1 FROM pauses WHERE pause_id = '{view.id}' AND workspace_id <> '{TENANT}'"):
            life.outside.note("wrong", text=f"the other workspace is shown pause {view.id}")
    await _must_not_find(
        life, action, f"cancel pause {pause}", lambda h: h.pauses.cancel(KEEPER, pause, reason="not theirs")
    )


async def _must_not_find(
    life: Life, action: Action, what: str, work: Callable[[Host], Awaitable[Any]]
) -> None:
    try:
        await life.persist(action.data["host"], work)
    except (NotFoundError, StorageError):
        life.outside.note("not found", what=what)
    except HostlerError as error:
        life.outside.note("wrong", text=f"the other workspace could try to {what}: {error.code}")
    else:
        life.outside.note("wrong", text=f"the other workspace could {what}")


ACTIONS = {"trespass": trespass}
