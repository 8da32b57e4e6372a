"""Runs and their children that share small budgets; people add to them, and an operator does so too."""

from __future__ import annotations

import random
from typing import Any

from hostler.domain.budgets import QUANTITIES, Use, in_units
from hostler.domain.top_ups import TopUp
from hostler.host.host import Host
from hostler.storage.port import Tx
from hostler.storage.stores import budget_accounts, budgets
from hostler_protocol.errors import HostlerError
from hostler_protocol.ids import new_id
from simulation.life import WORKSPACE, Life
from simulation.model_service import KEY_NAME, PRICE, URL
from simulation.plan import MAX_MOMENT, Action, Draft

MODEL = "counted"
PURSE, KIN = "purse", "purse.kin"
SMALL: dict[str, list[float]] = {
    "tokens": [400, 700, 1_500],
    "cost": [0.0006, 0.0012, 0.003],
    "calls": [5, 12],
    "tool_calls": [0, 2],
}
"""A question takes some 60 tokens, and may take 260 to 460."""
SPANS = ["run", "day", "conversation", "conversation_day", "person", "person_day"]
OPERATOR = "operator"


def plan(draft: Draft) -> None:
    """Sometimes: an agent with a family, whose budgets are reached."""
    chance = draft.chance("budgets")
    draft.models.append(
        {
            "id": MODEL,
            "base_url": URL,
            "api_key": f"env:{KEY_NAME}",
            "timeout": chance.choice([2.0, 10.0]),
            "max_retries": chance.choice([0, 2]),
            "price": PRICE,
            "max_output_tokens": chance.choice([100, 300]),
        }
    )
    terms = {
        "on_exceeded": chance.choice(["ask", "ask", "ask", "refuse", "end"]),
        "on_denied": chance.choice(["refuse", "end"]),
        "approvers": ["user:clerk", "user:boss"],
        "expires_in": chance.choice([60, 1800]),
    }
    common = {
        "config": {"model": MODEL, "timeout": chance.choice([20, 90])},
        "recovery": {"max_attempts": chance.choice([2, 5])},
        "scope": {"type": "conversation", "id": "only for purses"},
        "concurrency": {"on_busy": chance.choice(["queue", "parallel", "interrupt"])},
    }
    for name, allowed in ((PURSE, [KIN]), (KIN, [])):
        few = chance.randint(1, 2) if name == PURSE else chance.randint(0, 1)
        limits = {
            f"max_{what}_per_{chance.choice(SPANS)}": chance.choice(SMALL[what])
            for what in chance.sample(sorted(SMALL), few)
        }
        policy: dict[str, Any] = {"budget": {**terms, **limits}, "allowed_agents": allowed}
        runner = f"plugin:test/actor/{'resumable' if chance.random() < 0.8 else 'plain'}"
        draft.agents.append({"name": name, "runner": runner, "resource_policy": policy, **common})
    if chance.random() < 0.5:
        draft.settings["hold_seconds"] = chance.choice([0.2, 3.0])
    for number in range(chance.randint(1, 4)):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.7),
            "message",
            id=f"b{number}",
            agent=PURSE,
            conversation=f"b{chance.randint(1, 2)}",
            steps=program(chance, f"b{number}", kin=True),
            host=chance.randint(0, 1),
        )
    for _ in range(chance.choice([0, 1, 3])):
        draft.add(
            chance.uniform(0, MAX_MOMENT),
            "top up",
            part=chance.random(),
            times=chance.choice([0.5, 3.0]),
            host=chance.randint(0, 1),
        )


def program(chance: random.Random, name: str, *, kin: bool) -> list[list[Any]]:
    """Return the steps of a run. `kin`: it may have children."""
    texts = iter(f"{name}.{n}" for n in range(100))

    def think() -> list[Any]:
        return [chance.choice(["model", "stream"]), next(texts)]

    def step() -> list[Any]:
        match chance.choice(["think", "together", "tool", "kin" if kin else "think"]):
            case "together":
                return ["together", [think() for _ in range(3)]]
            case "tool":
                return ["tool", chance.choice(["note", "book", "price"]), next(texts)]
            case "kin":
                below = [
                    ["kin", program(chance, next(texts), kin=False)] for _ in range(chance.choice([1, 3]))
                ]
                return ["together", below]
            case _:
                return think()

    return [step() for _ in range(chance.randint(1, 4))]


async def top_up(life: Life, action: Action) -> None:
    """Add to a budget that was used, as an operator does without being asked."""
    host = await life.some_host(action.data["host"])
    try:
        await host.ask(lambda h: _top_up(h, action.data["part"], action.data["times"]))
    except HostlerError:
        return


async def _top_up(host: Host, part: float, times: float) -> None:
    found = await host.db.read(lambda tx: budget_accounts.page(tx, WORKSPACE, limit=100))
    if not found:
        return
    account = found[int(part * len(found))]
    limits = {name: getattr(account.limits, name) for name in QUANTITIES}
    added = {name: in_units(name, limit * times) for name, limit in limits.items() if limit}
    if not added:
        return
    new = TopUp(account.key, new_id(), Use(**added), OPERATOR, "admin", "so that it goes on")

    def add(tx: Tx) -> None:
        budgets.top_up(tx, new)

    await host.db.write(add)
    host.pauses.budget_added_to()


ACTIONS = {"top up": top_up}
