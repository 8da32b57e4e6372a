"""Tools whose services fail for a while, and runs with little time that call them."""

from __future__ import annotations

from typing import Any

from simulation import desk, shop
from simulation.http_service import ILLS
from simulation.life import Life
from simulation.outside import Ill
from simulation.plan import MAX_MOMENT, Action, Draft

TOOL_KINDS = ("down", "status 500", "hang", "lost", "torn", "late", "late")
LOOK_KINDS = ("down", "status 500", "hang", "late", "lie")


def plan(draft: Draft) -> None:
    """One agent with little time, messages to it, and faults of the services of all tools."""
    chance = draft.chance("services")
    draft.agents.append(
        {
            "name": "s0",
            "runner": f"plugin:test/actor/{'resumable' if chance.random() < 0.8 else 'plain'}",
            "config": {"timeout": chance.choice([3, 12])},
            "concurrency": {"on_busy": "parallel"},
            "scope": {"type": "conversation", "id": "only for s0"},
        }
    )
    for number in range(chance.choice([0, 1, 3])):
        texts = iter(f"s{number}.{n}" for n in range(9))

        def call(texts: Any = texts) -> list[Any]:
            return ["tool", chance.choice(["note", "book", "pay", "price"]), next(texts)]

        steps = [[call()], [call(), call()], [["together", [call(), call(), call()]]]]
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.8),
            "message",
            id=f"s{number}",
            agent="s0",
            conversation="s",
            steps=chance.choice(steps),
            host=chance.randint(0, 1),
        )
    plan_shop(draft)
    plan_ills(draft, "tool", TOOL_KINDS)
    plan_ills(draft, "look", LOOK_KINDS)


def plan_shop(draft: Draft) -> None:
    """Mostly: runs that call operations of the shop or the desk, and the ills of that one."""
    chance = draft.chance("shop")
    if chance.random() > 0.7:
        return
    service = chance.choice([shop.NAME, desk.NAME])
    seconds = chance.choice([3, 12])
    draft.tools.append(_mcp(seconds) if service == desk.NAME else _openapi(seconds))
    draft.agents.append(
        {
            "name": "shopper",
            "runner": f"plugin:test/actor/{'resumable' if chance.random() < 0.8 else 'plain'}",
            "config": {"tools": [f"{service}.*"], "timeout": chance.choice([8, 40])},
            "concurrency": {"on_busy": "parallel"},
            "scope": {"type": "conversation", "id": "only for the shopper"},
        }
    )
    for number in range(chance.randint(1, 3)):
        texts = iter(f"shop{number}.{n}" for n in range(9))
        wait = [["wait", round(chance.uniform(0.01, 2), 3)]]
        calls = [[service, chance.choice(["see", "order", "take"]), next(texts)] for _ in range(4)]
        steps = [[calls[0], *wait, calls[1]], [*calls[:3]], [calls[0], ["together", calls[1:]]]]
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.8),
            "message",
            id=f"shop{number}",
            agent="shopper",
            conversation="shop",
            steps=chance.choice(steps),
            host=chance.randint(0, 1),
        )
    ills = (*ILLS, "another", "status 404") if service == desk.NAME else ILLS
    plan_ills(draft, service, ills)


def _openapi(seconds: float) -> dict[str, Any]:
    address = f"https://{shop.NAME}.example/openapi.json"
    auth = {"key": f"env:{shop.KEY_NAME}"}
    entry = {"name": shop.NAME, "document": address, "digest": shop.DIGEST, "auth": auth}
    return {"openapi": {**entry, "seconds": seconds}}


def _mcp(seconds: float) -> dict[str, Any]:
    entry = {"name": desk.NAME, "url": desk.URL, "token": f"env:{desk.KEY_NAME}"}
    return {"mcp": {**entry, "seconds": seconds, "connect_seconds": 10, "trust_annotations": True}}


def plan_ills(draft: Draft, service: str, kinds: tuple[str, ...]) -> None:
    """None to three faults of a service."""
    chance = draft.chance(f"ills of {service}")
    for _ in range(chance.choice([0, 1, 1, 3])):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.8),
            "ill",
            service=service,
            kind=chance.choice(kinds),
            share=chance.choice([0.3, 0.7, 1.0]),
            seconds=round(chance.choice([0.3, 2.0, 8.0]) * chance.uniform(0.5, 1.5), 3),
        )


async def ill(life: Life, action: Action) -> None:
    """Let a service fail for a while."""
    data = action.data
    one = Ill(data["service"], data["kind"], data["share"])
    life.outside.ills.append(one)
    await life.later(data["seconds"], lambda: life.outside.ills.remove(one))


ACTIONS = {"ill": ill}
