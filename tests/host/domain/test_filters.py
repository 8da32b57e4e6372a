"""Filters: what may be saved, what they say, and that none can hold the host up."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import msgspec
import psutil
import pytest

from hostler.domain.bindings import Binding, FilterOutcome, Resolution, Unrouted, filters_of, resolve
from hostler.domain.events import Event
from hostler.domain.filters import MAX_FILTER_BYTES, Evaluator, check_filter
from hostler.runs import filters
from hostler.runs.filters import FilterProcesses
from hostler_protocol.errors import InvalidArgumentError
from support.grants import agent_of, event_of
from support.slow_engine import load_slowly

GOOD = [
    "event.event_type == 'message.received'",
    "event.data.items.exists(i, i.price > 10)",
    "event.data.a.filter(x, x > 1).map(y, y * 2).size() > 0",
    "event.data.a.exists(x, x == 1) || event.data.b.exists(x, x == 2)",
    "has(event.data.x) && type(event.data.x) == string && event.data.x.matches('^a+$')",
    "'event.x.all(y, z.all(q, q))' == event.input.text",
    'event.input.text == "a\'b.all(x, y.all(z, z))" // other, names.all(here, x)',
    "event.input.text == r'\\' || event.input.text == '''it's'''",
    "{'a': event.bot_id}.a == null && [1, 2].size() == 2 && 1.5e+3 > 0x10",
    "timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026 && 'x' in event.data",
    "event.data.all.exists == 1",
]
BAD = [
    ("now > 1", "the name 'now'"),
    ("x == event.bot_id", "the name 'x'"),
    ("event.data.a.exists(x, x > 1) && x == 2", "the name 'x'"),
    ("event.data.a.exists(x, y > 1)", "the name 'y'"),
    ("r'\\' == event.bot_id && z", "the name 'z'"),
    ("'''it's''' == event.bot_id && z", "the name 'z'"),
    ("event.data.a.all(x, event.data.b.all(y, y > x))", "nests macros"),
    (" event . data . all ( x , x . exists ( y , y ) )", "nests macros"),
    ("event.data.a.map(x, [x].filter(y, true)).size() > 0", "nests macros"),
    ("shout(event.bot_id)", r"uses shout\(\)"),
    ("event.input.text.lowerAscii() == 'a'", r"uses lowerAscii\(\)"),
    ("event.data[", "is not CEL"),
    ("", "is not CEL"),
    ("event.a = 1", "is not CEL"),
    ("true || " * 600 + "true", "4,804 bytes"),
    ("é" * (MAX_FILTER_BYTES // 2 + 1), "4,098 bytes"),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_may_be_saved(text: str) -> None:
    check_filter(text)


@pytest.mark.parametrize(("text", "reason"), BAD)
def test_what_may_not_and_why(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        check_filter(text)


def view(**fields: Any) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(event_of(**fields).envelope)
    return data


@pytest.mark.parametrize(
    ("text", "matched", "error"),
    [
        ("event.event_type == 'message.received'", True, None),
        ("event.actor.actor_id == 'ada'", True, None),
        ("event.bot_id == null && event.subject == null", True, None),
        ("event.data.n > 2", True, None),
        ("event.data.words.exists(w, w.startsWith('b'))", True, None),
        ("event.conversation_id == 'c2'", False, None),
        ("event.nothing == 1", False, "no such field: nothing"),
        ("event.data.n + 2.5 > 1.0", False, "No such overload"),
        ("event.data.n", False, "gave int"),
        ("event.input.text.matches('(')", False, "not a valid regex"),
        ("event.data.huge > 1.0e20", True, None),
        ("1 / 0 == 1", False, ""),
        ("int(event.input.text) == 1", False, ""),
    ],
)
def test_what_a_filter_says(text: str, matched: bool, error: str | None) -> None:
    event = view(data={"n": 3, "words": ["a", "b"], "huge": 2**90})
    outcome = Evaluator().evaluate(text, event)
    assert outcome.matched is matched
    if error is None:
        assert outcome.error is None
    else:
        assert outcome.error is not None
        assert error in outcome.error
        assert len(outcome.error) <= 300


HEAVY = "event.data.n.exists(x, event.data.n.exists(y, y + x == -1))"
HUNGRY = "event.data.w.map(x, event.input.text + x + x).size() == 1"


@pytest.mark.gate("filter-processes")
async def test_a_filter_that_takes_too_long_hurts_nobody_else() -> None:
    """The engine holds the interpreter's lock, so only the end of a process stops it."""

    async def ask() -> dict[str, FilterOutcome]:
        processes = FilterProcesses(1)
        try:
            event = event_of(data={"n": list(range(3_000)), "w": ["x" * 100] * 4_000})  # light for the others
            await processes.evaluate(event_of(), ["true"])
            return await processes.evaluate(event, ["true", HEAVY, "event.bot_id == null", HUNGRY, "false"])
        finally:
            await processes.close()

    outcomes = await ask()
    assert outcomes["true"] == FilterOutcome(True)
    assert outcomes["event.bot_id == null"] == FilterOutcome(True)
    assert outcomes["false"] == FilterOutcome(False)
    heavy = outcomes[HEAVY]
    assert not heavy.matched
    assert heavy.error == "the filter takes more than 0.5 s of processor time for this event"
    assert heavy.unknown, "nobody knows what it would have said"
    assert not outcomes[HUNGRY].matched
    assert outcomes[HUNGRY].unknown


async def test_what_a_process_loads_first_is_not_counted_as_the_time_of_a_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first start after an installation compiles what it imports; here the engine loads for a second."""
    load_slowly(tmp_path, monkeypatch)

    async def ask() -> dict[str, FilterOutcome]:
        processes = FilterProcesses(1)
        try:
            return await processes.evaluate(event_of(), ["true", "event.input.text == 'hello'"])
        finally:
            await processes.close()

    assert set((await ask()).values()) == {FilterOutcome(True)}


async def test_filters_are_unknown_where_no_process_can_be_started(tmp_path: Path) -> None:
    async def ask(*command: str) -> dict[str, FilterOutcome]:
        processes = FilterProcesses(1, worker=command)
        try:
            return await processes.evaluate(event_of(), ["true"])
        finally:
            await processes.close()

    gone = (await ask(str(tmp_path / "nothing")))["true"]
    assert gone.unknown
    assert gone.error is not None
    assert "no process could be started" in gone.error
    ends = (await ask(sys.executable, "-c", "raise SystemExit(3)"))["true"]
    assert (ends.unknown, ends.matched) == (True, False)
    assert ends.error == "the process that was to evaluate it did not start (status 3)"


async def test_a_process_that_died_while_it_was_idle_costs_no_event_its_agent() -> None:
    async def ask() -> dict[str, FilterOutcome]:
        processes = FilterProcesses(1)
        try:
            before = set(psutil.Process().children())
            await processes.evaluate(event_of(), ["true"])
            (child,) = set(psutil.Process().children()) - before
            child.kill()
            return await processes.evaluate(event_of(), ["true", "false"])
        finally:
            await processes.close()

    assert await ask() == {"true": FilterOutcome(True), "false": FilterOutcome(False)}


async def test_answers_of_a_process_that_is_gone_by_now_count() -> None:
    """It died of the second filter before the host, which was held up, saw that all was written to it."""

    async def ask() -> list[FilterOutcome]:
        stdout = asyncio.StreamReader()
        stdout.feed_data(b'{"matched":true,"error":null}\n')
        stdout.feed_eof()
        stdin = Mock(drain=AsyncMock(side_effect=ConnectionResetError("Connection lost")))
        answered: list[FilterOutcome] = []
        job = filters._Job(lambda texts: b"job", filters._outcome.decode, FilterOutcome.not_evaluated)
        await filters._ask(Mock(stdin=stdin, stdout=stdout), job, ["true", "false"], answered)
        return answered

    assert await ask() == [FilterOutcome(True)]


async def test_an_event_is_resolved_by_its_filters() -> None:
    agents = [
        agent_of("billing", filters=["event.input.text.contains('invoice')"], priority=1),
        agent_of("broken", filters=["event.nothing"], priority=2),
        agent_of("greeter", filters=["event.input.text == 'hello'"]),
    ]

    async def ask() -> tuple[object, object]:
        processes = FilterProcesses()

        async def resolved(event: Event) -> Resolution:
            outcomes = await processes.evaluate(event, list(filters_of(event, agents)))
            return resolve(event, agents, outcomes.__getitem__)

        try:
            found = await resolved(event_of())
            named = await resolved(event_of(agent="billing"))
            assert isinstance(await resolved(event_of(event_type="other.type")), Unrouted)
            return found, named
        finally:
            await processes.close()

    found, named = await ask()
    assert isinstance(found, Binding)
    assert found.agent.name == "greeter"
    assert [error.agent for error in found.filter_errors] == ["broken"]
    assert isinstance(named, Binding)
    assert named.agent.name == "billing"


def test_an_engine_that_needs_its_command_line_is_imported_with_it(tmp_path: Path) -> None:
    package = tmp_path / "cel"
    package.mkdir()
    (package / "__init__.py").write_text("from .cli import NAME\n")
    (package / "cli.py").write_text("NAME = 'whole'\n")
    code = "from hostler.domain.filters import _engine; print(_engine().NAME)"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert found.stdout == "whole\n"
