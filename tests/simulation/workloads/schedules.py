"""Schedules that fire while hosts come and go, and people who have them fire beside their times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

from hostler.domain.events import Caller
from hostler.host.host import Host
from hostler.runs.orchestrator import Accepted
from hostler.simulation.entropy import EPOCH
from hostler.storage.stores import schedules
from hostler_protocol.errors import HostlerError
from simulation.life import WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft

AGENT = "clock"
FOR_SECONDS = 24.0
"""From the start of the life: the last ones are planned when the faults are over."""
OPERATOR = Caller(workspace_id=WORKSPACE, subject="operator", key_id="k2")


def plan(draft: Draft) -> None:
    """One to three schedules of each kind of timing and policy."""
    chance = draft.chance("schedules")
    draft.agents.append(
        {
            "name": AGENT,
            "runner": "plugin:test/actor/resumable",
            "concurrency": {"on_busy": chance.choice(["queue", "parallel"])},
            "recovery": {"max_attempts": 3},
            "scope": {"type": "conversation", "id": "only for the clock"},
        }
    )
    for number in range(chance.randint(1, 3)):
        name = f"tick{number}"
        timing = chance.choice(["every", "every", "cron", "at"])
        spec = {
            "name": name,
            "agent": AGENT,
            "text": json.dumps([["tool", "note", f"{name}.1"], ["wait", chance.choice([0.01, 0.5])]]),
            "conversation_id": "ticks",
            "misfire": chance.choice(["skip", "once", "all", "all"]),
            "grace": chance.choice([1.0, 3.0, 60.0]),
            "jitter": chance.choice([0.0, 0.0, 1.5]),
        }
        moment = EPOCH + chance.uniform(2, MAX_MOMENT)
        match timing:
            case "every":
                spec["every"] = chance.choice([2.0, 3.5, 5.0])
            case "cron":
                spec["cron"] = f"*/{chance.choice([3, 4, 6])} * * * * *"
                spec["timezone"] = chance.choice(["UTC", "Europe/Berlin", "Asia/Kathmandu"])
            case "at":
                spec["at"] = text(moment)
        if timing != "at":
            spec["end"] = text(EPOCH + FOR_SECONDS)
        draft.schedules.append(spec)
        if chance.random() < 0.4:
            draft.add(chance.uniform(1, MAX_MOMENT * 0.9), "fire now", name=name, host=chance.randint(0, 1))


def text(moment: float) -> str:
    """Return a moment as an entry names it."""
    return datetime.fromtimestamp(round(moment), UTC).isoformat()


async def fire_now(life: Life, action: Action) -> None:
    """Have a schedule fire beside its times, once, however often that has to be asked for."""
    asked = f"asked-{action.data['name']}-{action.at}"
    try:
        accepted = await life.persist(
            action.data["host"], partial(_ask, name=action.data["name"], asked=asked)
        )
    except HostlerError as error:
        life.outside.note("operation refused", what=f"fire {asked}", code=error.code, error=error.message)
    else:
        life.outside.note("fired now", event=accepted.event_id, outcome=accepted.outcome)


async def _ask(host: Host, *, name: str, asked: str) -> Accepted:
    found = await host.db.read(lambda tx: schedules.get(tx, WORKSPACE, name))
    return await host.scheduler.ask(found, OPERATOR, asked)


ACTIONS = {"fire now": fire_now}
