"""Agents with a stored and a written-out secret; an operator sets, rotates, removes and sets it again."""

from __future__ import annotations

import itertools
from typing import Any

from hostler.host.config import ConfigFile
from hostler.host.host import Host
from hostler_protocol.errors import HostlerError, NotFoundError
from simulation.life import WORKSPACE, Life, wait
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads import encryption, messages

NAME = "token"
STORED, WRITTEN = "holder", "writer"
WRITTEN_OUT = "hunter2-written-out-in-an-agent"
LOOK_SECONDS = 0.5


def value(number: int) -> str:
    """Return the value that the operator sets at one time."""
    return f"hunter2-stored-value-{number}."


def number_in(text: str) -> int | None:
    """Return which value this is; None if it is none of the stored secret."""
    head, _, tail = text.partition("hunter2-stored-value-")
    return int(tail[:-1]) if not head and tail[:-1].isdigit() else None


def plan(draft: Draft) -> None:
    """In some lives: an agent with a stored secret, which changes, and one with a written-out one."""
    chance = draft.chance("secrets")
    draft.master_key = [encryption.OLD]
    for name, secret in ((STORED, f"secret://{NAME}"), (WRITTEN, WRITTEN_OUT)):
        draft.agents.append(
            {
                "name": name,
                "runner": "plugin:test/actor/holder",
                "config": {"key": secret},
                "concurrency": {"on_busy": chance.choice(["queue", "parallel"])},
                "recovery": {"on_crash": "restart", "max_attempts": chance.choice([2, 5])},
                "scope": {"type": "conversation", "id": f"only for the {name}"},
            }
        )
    draft.add(0.0, "set secrets", changes=_changes(chance), host=chance.randint(0, 1))
    for number in range(chance.randint(3, 8)):
        steps: list[list[Any]] = [["wait", round(chance.uniform(0.01, 2.0), 3)], ["say", f"n{number}"]]
        agent = STORED if number == 0 or chance.random() < 0.7 else WRITTEN
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.9),
            "use secret",
            id=f"n{number}",
            agent=agent,
            conversation=f"n{chance.randint(1, 3)}",
            steps=steps,
            host=chance.randint(0, 1),
        )
    if draft.hosts == 1 and chance.random() < 0.4:
        draft.add(chance.uniform(0, MAX_MOMENT * 0.5), "drop master key", host=0)


def _changes(chance: Any) -> list[list[Any]]:
    """Return what the operator does, one after the other: how long he waits, and what he does then."""
    more = range(chance.randint(1, 5))
    waits = [round(chance.uniform(0.1, 4.0), 3) for _ in more]
    return [[0.0, "set"], *([wait, "set" if chance.random() < 0.75 else "remove"] for wait in waits)]


async def set_secrets(life: Life, action: Action) -> None:
    """Set and remove the secret, each until it is confirmed. Each value is another one."""
    numbers, host = itertools.count(1), action.data["host"]
    life.secrets |= {WRITTEN_OUT}
    for seconds, what in action.data["changes"]:
        await wait(seconds)
        number = next(numbers) if what == "set" else None
        if number is not None:
            life.secrets |= {value(number)}
        life.outside.note("changes secret", number=number)
        version = await life.persist(host, _set(number) if number is not None else _remove)
        life.outside.note("changed secret", number=number, version=version)


def _set(number: int) -> Any:
    async def work(host: Host) -> int:
        facts = await host.secrets.set(WORKSPACE, "workspace", NAME, value(number), "operator")
        return facts.version

    return work


async def _remove(host: Host) -> None:
    try:
        await host.secrets.remove(WORKSPACE, "workspace", NAME, "operator", force=True)
    except NotFoundError:
        return  # an earlier try has done it


async def use_secret(life: Life, action: Action) -> None:
    """Send a message once there is a secret; it is noted when."""
    while not any(kind == "changed secret" for _, kind, _ in life.outside.notes):
        await life.look_again(LOOK_SECONDS)
    life.outside.note("asks for secret", event=action.data["id"])
    await messages.message(life, action)


async def drop_master_key(life: Life, action: Action) -> None:
    """Replace the master key, and take the old one away once nothing is under it."""
    await encryption.change_key(life, action)
    while any(key.uses for key in (await life.persist(0, lambda h: h.master_key.keys()))[1:]):
        await life.look_again(LOOK_SECONDS)
    life.master_key = life.master_key[:1]
    change = ConfigFile(master_key=life.master_key)
    try:
        await life.persist(0, lambda h: h.apply(change, actor="operator"), seconds=60)
    except HostlerError as error:
        life.outside.note("operation refused", what=action.what, code=error.code, error=error.message)
    else:
        life.outside.note("operated", what=action.what)


ACTIONS = {"set secrets": set_secrets, "use secret": use_secret, "drop master key": drop_master_key}
