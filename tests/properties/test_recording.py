"""Going on from a journal that was cut anywhere: nothing is done twice, told twice or lost, in any order.

Small programs are run against a host that stands in memory, with the real fast-forward between them. It does
one thing at a time, and Hypothesis says which; so calls that are made at once come back in any order. An
attempt is lost anywhere, and what was not durable with it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.recorded_programs import Attempt, Choose, DivergedError, LostError, Step, World

EXAMPLES = 2_000 if os.environ.get("HOSTLER_SOAK") else 150


def calls() -> st.SearchStrategy[Step]:
    kinds = ["read", "stream", "effect", "pure", "idempotent", "reconcilable", "default"]
    return st.tuples(st.sampled_from(kinds), st.sampled_from("ab"))


def results() -> st.SearchStrategy[Step]:
    return st.tuples(st.sampled_from(["delta", "delta", "say"]), st.sampled_from("ab"))


SEQUENTIAL = st.lists(calls() | results(), min_size=1, max_size=6)
RESTS = st.just(("rest", ""))
"""The runner does something of its own, which takes its time."""
BRANCH = st.tuples(calls(), st.lists(calls() | results() | RESTS, max_size=3)).map(lambda b: [b[0], *b[1]])
"""That they are at once shows only by their calls."""
BRANCHES = st.lists(BRANCH, min_size=2, max_size=3)
PROGRAMS = st.lists(calls() | results() | st.tuples(st.just("together"), BRANCHES), min_size=1, max_size=5)


async def attempts(
    program: list[Step], cuts: list[int], choose: Choose, world: World, stall_seconds: float = 60
) -> Attempt:
    """Run a program to its end, losing an attempt after each of these numbers of steps; the last attempt."""
    for number, left in enumerate([*cuts, None], 1):
        attempt = Attempt(world, number, choose, stall_seconds)
        try:
            await attempt.run(program, left)
        except LostError:
            world.cut(choose)
        else:
            return attempt
    raise AssertionError("the last attempt was lost")


def check(world: World, attempt: Attempt) -> None:
    """Nothing twice, nothing lost."""
    assert all(count == 1 for count in world.done.values()), world.done
    recorded = [e.name for e in world.journal if e.kind == "call"]
    assert len(recorded) == len(set(recorded)), "a recorded outcome was made again"
    values = Counter(json.loads(e.data)["reply"] for e in world.journal if e.kind == "call")
    assert Counter(attempt.answers.values()) == values, "an answer that is not the recorded one"
    assert set(world.outcomes.values()) <= values.keys(), "what was done is lost"
    assert Counter(world.shown()) == Counter(attempt.emitted)
    sequences = [e.sequence for e in world.journal if e.sequence is not None]
    assert sequences == list(range(1, len(sequences) + 1))


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(bounded())


CUTS = st.lists(st.integers(0, 25), max_size=4)


@settings(max_examples=EXAMPLES)
@given(PROGRAMS, CUTS, st.data())
def test_work_at_once_is_cut_anywhere_and_comes_to_its_end(
    program: list[Step], cuts: list[int], data: st.DataObject
) -> None:
    world = World()
    attempt = run(attempts(program, cuts, lambda count: data.draw(st.integers(0, count - 1)), world))
    check(world, attempt)


@settings(max_examples=EXAMPLES)
@given(SEQUENTIAL, CUTS, st.data())
def test_one_step_after_the_other_is_told_in_order(
    program: list[Step], cuts: list[int], data: st.DataObject
) -> None:
    world = World()
    attempt = run(attempts(program, cuts, lambda count: data.draw(st.integers(0, count - 1)), world))
    check(world, attempt)
    assert world.shown() == attempt.emitted


@settings(max_examples=EXAMPLES // 3)
@given(SEQUENTIAL, st.data())
def test_another_program_is_found_out(program: list[Step], data: st.DataObject) -> None:
    """Whatever result or effect of the recorded part is another one, or is left out."""

    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    marks = [n for n, step in enumerate(program) if step[0] not in {"read", "stream", "pure"}]
    if not marks:
        return
    world = World()
    run(attempts(program, [], choose, world))
    changed = data.draw(st.sampled_from(marks))
    kind, text = program[changed]
    other = [*program[:changed], (kind, text + "!"), *program[changed + 1 :]]
    if data.draw(st.booleans()):
        other = program[:changed]
    attempt = Attempt(world, 2, choose, 0.01)
    done = dict(world.done)
    try:
        run(attempt.run(other, None))
    except DivergedError:
        pass
    else:
        raise AssertionError(f"{other} passed for {program}")
    assert done == world.done, "it did something before it was found out"
