"""Cut a plan down while its life still has the same kind of finding.

Whether a race is lost depends on how long things take, and each action that goes shifts that. So a smaller
plan is tried with other seeds, too: `17` becomes `17/2`. First all that is smaller is tried with its own seed
alone; when none of that has the finding, with more seeds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from simulation.findings import kind_of
from simulation.life import Ended
from simulation.plan import Plan
from simulation.smaller import (
    FIELDS,
    Smaller,
    armed_first,
    earlier,
    fewer_agents,
    fewer_hosts,
    fewer_pairs,
    fewer_parts,
    less_of_the_rest,
    shorter_data,
    simpler_agents,
    simpler_faults,
)
from simulation.story import story_of

SEEDS = (1, 3, 10)
"""With how many seeds a smaller plan is tried: with more if nothing is found with fewer."""
MAX_LIVES = 900
SHORT_STORY = 14
"""Events. A story that is as short is not worth another try."""
DROPS = (fewer_hosts, less_of_the_rest, fewer_agents, armed_first, fewer_pairs)
POLISH = (simpler_agents, simpler_faults, shorter_data, earlier)
"""What makes a plan simpler. It must not make the story longer: times are not worth that."""

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
    seeds: tuple[int, ...] = SEEDS
    lives: int = 0
    _began: float = field(default_factory=time.monotonic)
    _tried: set[tuple[bytes, str]] = field(default_factory=set)
    _number: int = 1
    """Of the seeds that a plan is tried with now."""

    @property
    def plan(self) -> Plan:
        """The smallest plan so far."""
        return self.best.plan

    def shrink(self) -> Ended:
        """Return the life with the shortest story that was found.

        Which one is left depends on what is dropped first. If its story is long, it begins anew with another
        order.
        """
        whole, shortest = self.best, self.best
        for parts_first in (False, True):
            self.best = whole
            self._cut_down(parts_first)
            if shortest is whole or _size(self.best) < _size(shortest):
                shortest = self.best
            if len(story_of(shortest)) <= SHORT_STORY or self._spent():
                break
        self.best = shortest
        return shortest

    def _cut_down(self, parts_first: bool) -> None:
        level = 0
        while level < len(self.seeds) and not self._spent():
            before = self.plan
            self._number = self.seeds[level]
            if parts_first:
                self._while_it_holds(fewer_parts)
            self._drop_actions()
            self._other_moves()
            level = level + 1 if self.plan == before else 0
        self._calmest()

    def _other_moves(self) -> None:
        for make in (fewer_parts, *DROPS):
            self._while_it_holds(make)
        for make in POLISH:
            self._while_it_holds(make, longer=False)

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

    def _while_it_holds(self, make: Smaller, *, longer: bool = True) -> None:
        """Take smaller plans that still have the finding, until none has.

        After one is taken it goes on where it was: what was refused before it is tried in the next round.
        """
        number, found = 0, False
        while not self._spent():
            plans = list(make(self.plan))
            if number >= len(plans):
                if not found:
                    return
                number, found = 0, False
            elif self._holds(plans[number], longer=longer):
                found = True
            else:
                number += 1

    def _calmest(self) -> None:
        """Take the seed with which the story is the shortest."""
        base = self.plan.seed.split("/")[0]
        for number in range(1, max(self.seeds) + 1):
            seed = base if number == 1 else f"{base}/{number}"
            if seed != self.plan.seed and not self._spent():
                ended = self._lived(msgspec.structs.replace(self.plan, seed=seed))
                if self._has_it(ended) and len(story_of(ended)) < len(story_of(self.best)):
                    self.best = ended

    def _holds(self, plan: Plan, *, longer: bool = True) -> bool:
        text = msgspec.json.encode(msgspec.structs.replace(plan, seed=""))
        base = plan.seed.split("/")[0]
        others = [base, *(f"{base}/{number}" for number in range(2, self._number + 1))]
        for seed in list(dict.fromkeys([plan.seed, *others]))[: self._number]:
            if (text, seed) in self._tried or self._spent():
                continue
            self._tried.add((text, seed))
            ended = self._lived(msgspec.structs.replace(plan, seed=seed))
            if self._has_it(ended) and (longer or len(story_of(ended)) <= len(story_of(self.best))):
                self.best = ended
                return True
        return False

    def _lived(self, plan: Plan) -> Ended:
        self.lives += 1
        ended = self.live(plan)
        ended.findings.sort(key=lambda finding: kind_of(finding) != self.kind)  # told first
        self.progress(self.lives, self.plan)
        return ended

    def _has_it(self, ended: Ended) -> bool:
        return any(kind_of(finding) == self.kind for finding in ended.findings)


def _size(ended: Ended) -> tuple[int, int]:
    return len(story_of(ended)), len(ended.plan.actions)


def as_test(plan: Plan, findings: list[str]) -> str:
    """Return the life as a test to paste into tests/simulation/test_found.py."""
    name = "".join(letter if letter.isalnum() else "_" for letter in plan.seed)
    lines = [f"def test_life_{name}() -> None:"]
    lines += [f"    # {line}" for line in "\n".join(findings[:1]).splitlines()[:1]]
    lines += [
        "    plan = Plan(",
        f"        seed={plan.seed!r},",
        f"        hosts={plan.hosts},",
        *(f"        {name}={value!r}," for name in FIELDS if (value := getattr(plan, name))),
        "        agents=[",
    ]
    lines += [f"            {agent!r}," for agent in plan.agents]
    lines += ["        ],", "        actions=["]
    lines += [f"            Action({one.at!r}, {one.what!r}, {one.data!r})," for one in plan.actions]
    lines += ["        ],", "    )", "    assert findings_of(plan) == []"]
    return "\n".join(lines)
