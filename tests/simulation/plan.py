"""The plan of a life: who is there, what they do and when, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

MAX_MOMENT = 20.0
"""Simulated seconds in which things happen; then the faults end, and all has to come to rest."""


class Action(msgspec.Struct, frozen=True, array_like=True):
    """One thing that happens at a moment (seconds since the hosts are up)."""

    at: float
    what: str
    data: dict[str, Any] = {}


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A life. `seed` decides how long everything takes; the rest is listed."""

    seed: str
    hosts: int = 1
    settings: dict[str, Any] = {}
    """Settings of the hosts that are not those of every life."""
    people: dict[str, float] = {}
    """How often people do what they need not do; see workloads/people.py."""
    plugins: list[str] = []
    """Folders of plugins in this directory, besides `plugin`."""
    models: list[dict[str, Any]] = []
    pause_key: list[str] = []
    """References to the keys that seal what runners keep over their pauses."""
    master_key: list[str] = []
    """References to the keys under which content is sealed; empty: it is not."""
    anchors: list[float] = []
    """Minutes between anchors of the hash chains; empty: there are none."""
    webhooks: list[dict[str, Any]] = []
    hooks: list[dict[str, Any]] = []
    schedules: list[dict[str, Any]] = []
    channels: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    agents: list[dict[str, Any]] = []
    tenant: list[dict[str, Any]] = []
    """Agents of the second workspace."""
    actions: list[Action] = []

    def without(self, dropped: set[int]) -> Plan:
        """Return the plan without some of its actions, by their numbers."""
        kept = [action for number, action in enumerate(self.actions) if number not in dropped]
        return msgspec.structs.replace(self, actions=kept)


class Draft:
    """A plan that is being made."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.hosts = 1
        self.settings: dict[str, Any] = {}
        self.people: dict[str, float] = {}
        self.plugins: list[str] = []
        self.models: list[dict[str, Any]] = []
        self.pause_key: list[str] = []
        self.master_key: list[str] = []
        self.anchors: list[float] = []
        self.webhooks: list[dict[str, Any]] = []
        self.hooks: list[dict[str, Any]] = []
        self.schedules: list[dict[str, Any]] = []
        self.channels: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self.agents: list[dict[str, Any]] = []
        self.tenant: list[dict[str, Any]] = []
        self.actions: list[Action] = []

    def chance(self, name: str) -> random.Random:
        """Return a stream of the seed's random numbers."""
        return random.Random(f"{self.seed}/plan/{name}")

    def add(self, at: float, what: str, **data: Any) -> None:
        """Let something happen."""
        self.actions.append(Action(round(at, 4), what, data))


Planner = Callable[[Draft], None]


def make_plan(seed: str, planners: Iterator[Planner]) -> Plan:
    """Make the plan of a seed. The planners add to it in order."""
    draft = Draft(seed)
    for planner in planners:
        planner(draft)
    actions = sorted(draft.actions, key=lambda action: action.at)
    return Plan(
        seed=seed,
        hosts=draft.hosts,
        settings=draft.settings,
        people=draft.people,
        plugins=draft.plugins,
        models=draft.models,
        pause_key=draft.pause_key,
        master_key=draft.master_key,
        anchors=draft.anchors,
        webhooks=draft.webhooks,
        hooks=draft.hooks,
        schedules=draft.schedules,
        channels=draft.channels,
        tools=draft.tools,
        agents=draft.agents,
        tenant=draft.tenant,
        actions=actions,
    )
