"""All workloads and judges."""

from __future__ import annotations

from simulation.judges import (
    answers,
    attempts,
    chains,
    charges,
    decisions,
    doubts,
    effects,
    facts,
    leftovers,
    liveness,
    order,
    paid,
    pauses,
    prompt,
    runs,
    turns,
)
from simulation.judges import webhooks as notices
from simulation.life import Handler
from simulation.plan import Plan, make_plan
from simulation.workloads import (
    assistants,
    bursts,
    calls,
    conversations,
    copies,
    faults,
    filters,
    keeping,
    leases,
    messages,
    models,
    operators,
    people,
    services,
    strangers,
    strikes,
    webhooks,
)
from simulation.workloads import runs as work

PLANNERS = (
    messages.plan,
    faults.plan,
    faults.plan_moments,
    conversations.plan,
    work.plan,
    people.plan,
    operators.plan,
    calls.plan,
    models.plan,
    services.plan,
    webhooks.plan,
    strangers.plan,
    keeping.plan,
    filters.plan,
    bursts.plan,
    copies.plan,
    strikes.plan,
    assistants.plan,
    faults.plan_commits,
)
HANDLERS: dict[str, Handler] = {
    **messages.ACTIONS,
    **faults.ACTIONS,
    **work.ACTIONS,
    **operators.ACTIONS,
    **calls.ACTIONS,
    **services.ACTIONS,
    **strangers.ACTIONS,
    **keeping.ACTIONS,
    **filters.ACTIONS,
    **bursts.ACTIONS,
    **copies.ACTIONS,
    **strikes.ACTIONS,
}
ATTEND = [people.attend, people.attend_too, people.attend_tenant, leases.attend]
JUDGES = [
    liveness.judge,
    runs.judge,
    order.judge,
    turns.judge,
    pauses.judge,
    decisions.judge,
    effects.judge,
    chains.judge,
    facts.judge,
    leftovers.judge,
    prompt.judge,
    answers.judge,
    attempts.judge,
    doubts.judge,
    paid.judge,
    charges.judge,
    notices.judge,
]
FAULTS = frozenset(
    {
        *faults.KINDS,
        *faults.MOMENTS,
        *faults.COMMITS,
        *calls.KINDS,
        *services.ACTIONS,
        *filters.ACTIONS,
        *strikes.KINDS,
    }
)


def plan_of(seed: str) -> Plan:
    """Return the plan of a seed."""
    return make_plan(seed, iter(PLANNERS))
