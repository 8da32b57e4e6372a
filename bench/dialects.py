"""Fan-out of one run to streams in a dialect, against the same streams of results.

As bench/sse.py: CPU of a subscriber and token, and the time to the first bytes with the text of the first
token, with a thousand streams in one dialect, and with a thousand in all of them by turns. Streams of one
dialect share a fold, so that its cost is divided by their number. Each has what it would have of its own: by
JSON-RPC (A2A, MCP) the id of its request, and with MCP the token of its progress and the ids of its events.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from bench.sse import Control, Measured, Serve, allow_sockets, measure, ours
from bench.table import Row, middle

NATIVE = "as they are"
CONTEXT = "c5b7e4de-7d2f-4c56-8f0a-3d6f6f1f1f10"


class _Reading(NamedTuple):
    """How one stream is read: makes its fold, and what it has in the place of placeholders."""

    fold: Any
    filling: Any = ()


def _dialects() -> list[str]:
    from hostler.http.dialect_table import FOLDS  # noqa: PLC0415

    return sorted(FOLDS)


def _reading(name: str, number: int) -> _Reading:
    from hostler.http.a2a.bindings import RPC_EVENTS, filling_for  # noqa: PLC0415
    from hostler.http.a2a.fold import TaskFacts, TaskFold  # noqa: PLC0415
    from hostler.http.dialect_table import FOLDS, ShownRun  # noqa: PLC0415
    from hostler.http.mcp.call_fold import CallFacts, CallFold  # noqa: PLC0415
    from hostler_protocol.runs import RunRecord  # noqa: PLC0415

    run = RunRecord(
        run_id="run",
        agent="worker",
        agent_version=1,
        runner_id="plugin:bench/bench/default",
        status="running",
        attempt=1,
        created_at=0.0,
        conversation_id=CONTEXT,
    )
    shown = ShownRun(run, frozenset(), "http://127.0.0.1")
    match name:
        case "a2a":
            facts = TaskFacts(run.run_id, CONTEXT, shown.base)
            opening = TaskFold(facts, RPC_EVENTS).task()
            fold = partial(TaskFold, facts, RPC_EVENTS, opening=opening, stays=True)
            return _Reading(fold, filling_for(f"request-{number}"))
        case "mcp":
            event_ids = b"signed-" * 14 + b"%d" % number
            call = CallFacts(shown.answer, run.agent, number, CONTEXT, number, event_ids=event_ids)
            return _Reading(partial(CallFold, call.shared()), call.filling())
        case _:
            return _Reading(partial(FOLDS[name], shown))


def _translate(names: list[str], number: int) -> Any:
    from hostler.http.dialects.fold import Answer, Folding  # noqa: PLC0415
    from hostler.http.event_stream import Translation  # noqa: PLC0415

    name = names[number % len(names)]
    fold, filling = _reading(name, number)
    return Translation(name, lambda: Folding(fold(), Answer("run")), _no_usage, filling)


async def _no_usage() -> None:
    return None


async def in_dialects(names: list[str], control: Control, tokens: int, per_second: float) -> None:
    """Serve the tokens in these dialects, by turns."""
    await ours(control, tokens, per_second, partial(_translate, names))


def rows(quick: bool) -> list[Row]:
    """Measure the results as they are, each dialect, and all of them, in turns."""
    subscribers, tokens, rounds = (20, 40, 1) if quick else (1000, 120, 3)
    allow_sockets(subscribers)
    names = _dialects()
    ways: dict[str, Serve] = {NATIVE: ours, **{name: partial(in_dialects, [name]) for name in names}}
    ways[f"{len(names)} dialects, mixed"] = partial(in_dialects, names)
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, serve in ways.items():
            found[name].append(measure(serve, subscribers, tokens, 40.0, forked=quick))
    native = found.pop(NATIVE)
    cpu, first = middle([one.us for one in native]), middle([one.first_ms for one in native])
    return [
        *(
            Row(
                f"fan-out to {subscribers:,} streams in {name}, CPU of a subscriber and token",
                us := middle([one.us for one in measured]),
                "us",
                us / cpu,
                f"the results as they are ({cpu:.1f} us)",
                "at most 1.5",
            )
            for name, measured in found.items()
        ),
        *(
            Row(
                f"first token in {subscribers:,} streams in {name}, in the middle of them",
                ms := middle([one.first_ms for one in measured]),
                "ms",
                ms / first,
                f"the results as they are ({first:.1f} ms)",
            )
            for name, measured in found.items()
        ),
    ]
