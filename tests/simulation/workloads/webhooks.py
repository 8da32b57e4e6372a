"""Receivers of notices of pauses and of ends of runs, and their faults."""

from __future__ import annotations

from hostler.domain.webhooks import RUN_EVENTS
from simulation.http_service import ILLS
from simulation.plan import Draft
from simulation.receivers import SECRET_NAME
from simulation.workloads.services import plan_ills

WANTED = [[], ["pause.opened", "pause.needs_review"], list(RUN_EVENTS), ["run.failed", "pause.opened"]]


def plan(draft: Draft) -> None:
    """No, one or two receivers, and their faults."""
    chance = draft.chance("webhooks")
    for number in range(chance.choice([0, 1, 2])):
        draft.webhooks.append(
            {
                "name": f"hook{number}",
                "url": f"https://hook{number}.example/notices",
                "secret": f"env:{SECRET_NAME}",
                "events": chance.choice(WANTED),
            }
        )
        plan_ills(draft, f"hook{number}", (*ILLS, "status 410", "status 302"))
