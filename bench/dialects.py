"""Fan-out of one run to streams in a dialect, against the same streams of results.

As bench/sse.py: CPU of a subscriber and token, with a thousand streams in one dialect, and with a thousand in
all of them by turns. Streams of one dialect share a fold, so that its cost is divided by their number.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.sse import Control, Serve, allow_sockets, measure, ours
from bench.table import Row, middle


def _dialects() -> list[str]:
    from hostler.http.dialect_table import FOLDS  # noqa: PLC0415

    return sorted(FOLDS)


def _translate(names: list[str], number: int) -> Any:
    from hostler.http.dialect_table import FOLDS, ShownRun  # noqa: PLC0415
    from hostler.http.dialects.fold import Folding  # noqa: PLC0415
    from hostler.http.event_stream import Translation  # noqa: PLC0415
    from hostler_protocol.runs import RunRecord  # noqa: PLC0415

    name = names[number % len(names)]
    run = RunRecord(
        run_id="run",
        agent="worker",
        agent_version=1,
        runner_id="plugin:bench/bench/default",
        status="running",
        attempt=1,
        created_at=0.0,
    )
    shown = ShownRun(run, frozenset(), "http://127.0.0.1")
    return Translation(name, lambda: Folding(FOLDS[name](shown), shown.answer), _no_usage)


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
    ways: dict[str, Serve] = {"as they are": ours, **{name: partial(in_dialects, [name]) for name in names}}
    ways[f"{len(names)} dialects, mixed"] = partial(in_dialects, names)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, serve in ways.items():
            found[name].append(measure(serve, subscribers, tokens, 40.0)[0])
    us = {name: middle(values) for name, values in found.items()}
    native = us.pop("as they are")
    return [
        Row(
            f"fan-out to {subscribers:,} streams in {name}, CPU of a subscriber and token",
            one,
            "us",
            one / native,
            f"the results as they are ({native:.1f} us)",
            "at most 1.5",
        )
        for name, one in us.items()
    ]
