"""Runs that try to create runs which they must not create, themselves and from a child."""

from __future__ import annotations

from simulation.plan import MAX_MOMENT, Draft

VAULT = {
    "name": "vault",
    "runner": "plugin:test/actor/resumable",
    "scope": {"type": "conversation", "id": "only for vaults"},
}


def plan(draft: Draft) -> None:
    """Now and then: a run that overreaches, and has a child that may by itself do what the run may not."""
    chance = draft.chance("families")
    if chance.random() > 0.5:
        return
    allowed = [["climber.*"], ["climber.helper"], ["climber.helper", "nobody"]]
    draft.agents += [
        VAULT,
        {
            **VAULT,
            "name": "climber",
            "runner": f"plugin:test/actor/{chance.choice(['resumable', 'plain'])}",
            "resource_policy": {"allowed_agents": chance.choice(allowed)},
        },
        {**VAULT, "name": "climber.helper", "resource_policy": {"allowed_agents": ["climber.*", "vault"]}},
    ]
    for number in range(chance.choice([1, 1, 2])):
        name = f"v{number}"
        steps = [["overreach", chance.random() < 0.7], ["say", f"{name}.a"]]
        if chance.random() < 0.4:
            steps.insert(0, ["tool", "note", f"{name}.b"])
        at, host = chance.uniform(0, MAX_MOMENT * 0.5), chance.randint(0, 1)
        draft.add(at, "message", id=name, agent="climber", conversation=name, steps=steps, host=host)
