"""All workloads and judges."""

from __future__ import annotations

from simulation.judges import effects, liveness, prompt, runs
from simulation.life import Handler
from simulation.plan import Plan, make_plan
from simulation.workloads import faults, messages, people

PLANNERS = (messages.plan, faults.plan)
HANDLERS: dict[str, Handler] = {**messages.ACTIONS, **faults.ACTIONS}
ATTEND = [people.attend]
JUDGES = [liveness.judge, runs.judge, effects.judge, prompt.judge]
FAULTS = frozenset(faults.KINDS)


def plan_of(seed: str) -> Plan:
    """Return the plan of a seed."""
    return make_plan(seed, iter(PLANNERS))
