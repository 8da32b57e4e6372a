"""All workloads and judges."""

from __future__ import annotations

import random

from simulation.judges import (
    answers,
    attempts,
    budgets,
    chains,
    charges,
    decisions,
    doubts,
    effects,
    erased,
    facts,
    families,
    leftovers,
    liveness,
    lost,
    order,
    paid,
    pauses,
    prompt,
    quotas,
    runs,
    sealed,
    secrets,
    turns,
    watched,
)
from simulation.judges import channels as chats
from simulation.judges import hooks as rings
from simulation.judges import schedules as ticks
from simulation.judges import webhooks as notices
from simulation.life import Handler
from simulation.plan import Plan, Planner, make_plan
from simulation.workloads import (
    ahead,
    anchors,
    assistants,
    bursts,
    calls,
    channels,
    conversations,
    copies,
    encryption,
    erasures,
    faults,
    filters,
    hooks,
    keeping,
    leases,
    messages,
    models,
    operators,
    people,
    reminders,
    rights,
    schedules,
    sealing,
    services,
    signing_in,
    strangers,
    strikes,
    watchers,
    webhooks,
)
from simulation.workloads import budgets as spenders
from simulation.workloads import families as climbers
from simulation.workloads import quotas as hoarders
from simulation.workloads import runs as work
from simulation.workloads import secrets as holders

ALWAYS = frozenset(
    {messages.plan, faults.plan, faults.plan_moments, faults.plan_commits, calls.plan, strikes.plan}
)
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
    erasures.plan,
    sealing.plan,
    ahead.plan,
    rights.plan,
    signing_in.plan,
    anchors.plan,
    climbers.plan,
    hoarders.plan,
    spenders.plan,
    encryption.plan,
    holders.plan,
    watchers.plan,
    hooks.plan,
    schedules.plan,
    channels.plan,
    reminders.plan,
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
    **erasures.ACTIONS,
    **sealing.ACTIONS,
    **rights.ACTIONS,
    **spenders.ACTIONS,
    **encryption.ACTIONS,
    **holders.ACTIONS,
    **watchers.ACTIONS,
    **hooks.ACTIONS,
    **schedules.ACTIONS,
    **channels.ACTIONS,
}
ATTEND = [people.attend, people.attend_too, people.attend_tenant, leases.attend]
_OTHERS = [
    liveness.judge,
    runs.judge,
    watched.judge,
    order.judge,
    turns.judge,
    pauses.judge,
    decisions.judge,
    effects.judge,
    chains.judge,
    facts.judge,
    leftovers.judge,
    sealed.judge,
    secrets.judge,
    prompt.judge,
    answers.judge,
    attempts.judge,
    lost.judge,
    doubts.judge,
    paid.judge,
    charges.judge,
    budgets.judge,
    families.judge,
    quotas.judge,
    notices.judge,
    rings.judge,
    ticks.judge,
    chats.judge,
]
JUDGES = [*map(erased.sparing, _OTHERS), erased.judge]
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


SHARES = (0.1, 0.3, 0.6)
"""How much of what people and services can do happens in a life; faults have chances of their own. Lives
of a few parts come to states that those of all parts hardly see: what one part does often keeps others from
happening."""

ILLS = services.ACTIONS.keys()
"""What goes wrong outside of the hosts and their plugins."""
CALM_SHARE = 0.12
"""Of lives in which nothing else goes wrong: there a lost wake-up shows, which after a fault is no wonder."""


def plan_of(seed: str) -> Plan:
    """Return the plan of a seed: some of the planners, drawn for this life."""
    share = random.Random(f"{seed}/share").choice(SHARES)

    def chosen(planner: Planner) -> bool:
        return planner in ALWAYS or random.Random(f"{seed}/{planner.__module__}/chosen").random() < share

    plan = make_plan(seed, filter(chosen, PLANNERS))
    if random.Random(f"{seed}/calm").random() < CALM_SHARE:
        return plan.without({n for n, action in enumerate(plan.actions) if action.what in FAULTS - ILLS})
    return plan
