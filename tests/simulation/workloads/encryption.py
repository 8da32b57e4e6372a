"""Lives whose content is encrypted at rest, under a master key that an operator replaces."""

from __future__ import annotations

from hostler.host.config import ConfigFile
from simulation.life import Life
from simulation.opened import NAMES
from simulation.plan import MAX_MOMENT, Action, Draft

OLD, NEW = (f"env:{name}" for name in NAMES)


def plan(draft: Draft) -> None:
    """In some lives: a master key; perhaps another one later."""
    chance = draft.chance("encryption")
    draft.master_key = [OLD]
    if chance.random() < 0.6:
        draft.add(chance.uniform(0, MAX_MOMENT), "change master key", host=0)


async def change_key(life: Life, action: Action) -> None:
    """Wrap with another key from now on; the old one still opens what it wrapped."""
    life.master_key = [NEW, OLD]
    change = ConfigFile(master_key=life.master_key)
    await life.persist(0, lambda h: h.apply(change, actor="operator"), seconds=60)
    life.outside.note("operated", what=action.what)


ACTIONS = {"change master key": change_key}
