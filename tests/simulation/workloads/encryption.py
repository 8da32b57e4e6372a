"""Lives whose content is encrypted at rest, under keys that an operator replaces."""

from __future__ import annotations

import contextlib

from hostler.host import workspace_keys
from hostler.host.config import ConfigFile
from hostler_protocol.errors import NotFoundError
from simulation.life import WORKSPACE, Life
from simulation.opened import NAMES
from simulation.plan import MAX_MOMENT, Action, Draft

OLD, NEW = (f"env:{name}" for name in NAMES)


def plan(draft: Draft) -> None:
    """In some lives: a master key; perhaps another one later."""
    chance = draft.chance("encryption")
    draft.master_key = [OLD]
    if chance.random() < 0.6:
        draft.add(chance.uniform(0, MAX_MOMENT), "change master key", host=0)
    for _ in range(chance.choice([0, 0, 1, 2])):
        draft.add(chance.uniform(0, MAX_MOMENT), "rotate workspace keys", host=0)


async def change_key(life: Life, action: Action) -> None:
    """Wrap with another key from now on; the old one still opens what it wrapped."""
    life.master_key = [NEW, OLD]
    change = ConfigFile(master_key=life.master_key)
    await life.persist(0, lambda h: h.apply(change, actor="operator"), seconds=60)
    life.outside.note("operated", what=action.what)


async def rotate_keys(life: Life, action: Action) -> None:
    """Replace the keys of all workspaces and the erasure key. A host that dies in it goes on at its start."""
    with contextlib.suppress(NotFoundError):  # nothing was sealed so far
        await life.persist(
            0, lambda h: workspace_keys.rotate(h.sealing, WORKSPACE, None, by="operator"), seconds=60
        )
    life.outside.note("operated", what=action.what)


ACTIONS = {"change master key": change_key, "rotate workspace keys": rotate_keys}
