"""Cut a plan down while its life still has the same kind of finding.

Whether a race is lost depends on how long things take, and each action that goes shifts that. So a smaller
plan is tried with a few other seeds, too: `17` becomes `17/2`.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from simulation.findings import kind_of
from simulation.life import Ended
from simulation.plan import Action, Plan

SEEDS = 3
MAX_LIVES = 900
MORE = ("settings", "people", "plugins", "models", "webhooks", "tenant")
"""Fields of a plan that most lives leave as they are."""

Live = Callable[[Plan], Ended]
Progress = Callable[[int, Plan], None]


@dataclass
class Minimiser:
    """Looks for a smaller life with a finding of the kind. `lives`: how many it has lived."""

    live: Live
    kind: str
    best: Ended
    progress: Progress = lambda _lives, _plan: None
    max_lives: int = MAX_LIVES
    max_seconds: float = math.inf
    """Real time."""
    seeds: int = SEEDS
    lives: int = 0
    _began: float = field(default_factory=time.monotonic)
    _tried: set[bytes] = field(default_factory=set)

    @property
    def plan(self) -> Plan:
        """The smallest plan so far."""
        return self.best.plan

    def shrink(self) -> Ended:
        """Return the smallest life that was found."""
        before = None
        while before != self.plan and not self._spent():
            before = self.plan
            self._drop_actions()
            for make in (
                _fewer_hosts,
                _less_of_the_rest,
                _fewer_agents,
                _simpler_agents,
                _shorter_data,
                _earlier,
            ):
                self._while_it_holds(make)
        return self.best

    def _spent(self) -> bool:
        return self.lives >= self.max_lives or time.monotonic() - self._began > self.max_seconds

    def _drop_actions(self) -> None:
        """Delta debugging: drop a half of the actions, a quarter, ... one."""
        size = max(1, len(self.plan.actions) // 2)
        while not self._spent():
            start, dropped = 0, False
            while start < len(self.plan.actions):
                if self._holds(self.plan.without(set(range(start, start + size)))):
                    dropped = True
                else:
                    start += size
            if size == 1 and not dropped:
                return
            size = max(1, size // 2) if not dropped else min(size, max(1, len(self.plan.actions) // 2))

    def _while_it_holds(self, make: Callable[[Plan], Iterable[Plan]]) -> None:
        """Take the first smaller plan that still has the finding, until none has."""
        found = True
        while found and not self._spent():
            found = any(self._holds(plan) for plan in make(self.plan))

    def _holds(self, plan: Plan) -> bool:
        text = msgspec.json.encode(msgspec.structs.replace(plan, seed=""))
        if text in self._tried or self._spent():
            return False
        self._tried.add(text)
        base = plan.seed.split("/")[0]
        others = [base, *(f"{base}/{number}" for number in range(2, self.seeds + 1))]
        for seed in dict.fromkeys([plan.seed, *others]):
            self.lives += 1
            ended = self.live(msgspec.structs.replace(plan, seed=seed))
            self.progress(self.lives, self.plan)
            if any(kind_of(finding) == self.kind for finding in ended.findings):
                self.best = ended
                return True
        return False


def _fewer_hosts(plan: Plan) -> Iterator[Plan]:
    if plan.hosts > 1:
        yield msgspec.structs.replace(plan, hosts=1)


def _less_of_the_rest(plan: Plan) -> Iterator[Plan]:
    """None of a field, or one thing less of it."""
    for name in MORE:
        value = getattr(plan, name)
        if value:
            yield msgspec.structs.replace(plan, **{name: type(value)()})
        if len(value) > 1 and isinstance(value, dict):
            for key in value:
                yield msgspec.structs.replace(plan, **{name: {k: v for k, v in value.items() if k != key}})
        elif len(value) > 1:
            for number in range(len(value)):
                yield msgspec.structs.replace(plan, **{name: value[:number] + value[number + 1 :]})


def _fewer_agents(plan: Plan) -> Iterator[Plan]:
    for number, agent in enumerate(plan.agents):
        if not any(_names(action.data, agent["name"]) for action in plan.actions):
            yield msgspec.structs.replace(plan, agents=plan.agents[:number] + plan.agents[number + 1 :])


def _names(data: Any, name: str) -> bool:
    return f'"{name}"' in json.dumps(data)


def _simpler_agents(plan: Plan) -> Iterator[Plan]:
    for number, agent in enumerate(plan.agents):
        for key in [key for key in agent if key not in ("name", "runner", "scope")]:
            less = {name: value for name, value in agent.items() if name != key}
            yield msgspec.structs.replace(
                plan, agents=[*plan.agents[:number], less, *plan.agents[number + 1 :]]
            )


def _shorter_data(plan: Plan) -> Iterator[Plan]:
    """Lists with fewer items, and lists in lists; times and counts that are smaller."""
    for number, action in enumerate(plan.actions):
        for data in _smaller(action.data):
            actions = list(plan.actions)
            actions[number] = Action(action.at, action.what, data)
            yield msgspec.structs.replace(plan, actions=actions)


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            for less in _smaller(inner):
                yield {**value, key: less}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, list):  # a step of a program
                yield value[:number] + value[number + 1 :]
                if inner and inner[0] == "together":
                    yield [*value[:number], *inner[1], *value[number + 1 :]]
            for less in _smaller(inner):
                yield [*value[:number], less, *value[number + 1 :]]
    elif isinstance(value, float) and value > 0.1:
        yield from dict.fromkeys(float(f"{less:.1g}") for less in (0.05, value / 4) if less < value * 0.7)
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield 1


def _earlier(plan: Plan) -> Iterator[Plan]:
    """Everything sooner: the first action at once, and gaps that are shorter."""
    for number, action in enumerate(plan.actions):
        before = plan.actions[number - 1].at if number else 0.0
        gap = action.at - before
        for shorter in (0.0 if not number else 0.1, gap / 4):
            if gap - shorter > 0.1:
                moved = copy.copy(plan.actions)
                for late in range(number, len(moved)):
                    one = moved[late]
                    moved[late] = Action(round(one.at - (gap - shorter), 4), one.what, one.data)
                yield msgspec.structs.replace(plan, actions=moved)


def as_test(plan: Plan, findings: list[str]) -> str:
    """Return the life as a test to paste into tests/simulation/test_found.py."""
    name = "".join(letter if letter.isalnum() else "_" for letter in plan.seed)
    lines = [f"def test_life_{name}() -> None:"]
    lines += [f"    # {line}" for line in "\n".join(findings[:1]).splitlines()[:1]]
    lines += [
        "    plan = Plan(",
        f"        seed={plan.seed!r},",
        f"        hosts={plan.hosts},",
        *(f"        {name}={value!r}," for name in MORE if (value := getattr(plan, name))),
        "        agents=[",
    ]
    lines += [f"            {agent!r}," for agent in plan.agents]
    lines += ["        ],", "        actions=["]
    lines += [f"            Action({one.at!r}, {one.what!r}, {one.data!r})," for one in plan.actions]
    lines += ["        ],", "    )", "    assert findings_of(plan) == []"]
    return "\n".join(lines)
