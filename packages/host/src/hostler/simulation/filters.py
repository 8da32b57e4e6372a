"""Evaluation of filters without processes: the product's queue and evaluator, and processes that may fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from hostler.domain.bindings import FilterOutcome
from hostler.domain.filters import Evaluator, ValueOutcome
from hostler.runs.filters import FilterProcesses
from hostler.simulation.latency import Latency


class SimulatedFilters(FilterProcesses):
    """`broken` returns whether the processes fail now: no filter can be evaluated then."""

    def __init__(self, latency: Latency, broken: Callable[[], bool]) -> None:
        super().__init__()
        self._latency = latency
        self._broken = broken
        self._evaluator = Evaluator()

    async def _values(self, view: msgspec.Raw, expressions: Sequence[str]) -> dict[str, ValueOutcome]:
        await asyncio.sleep(self._latency.thread())
        if self._broken():
            return dict.fromkeys(expressions, ValueOutcome.not_evaluated("the process of the filter ended"))
        names = msgspec.json.decode(view)
        return {text: self._evaluator.value(text, names) for text in expressions}

    async def _evaluate(self, view: msgspec.Raw, filters: Sequence[str]) -> dict[str, FilterOutcome]:
        await asyncio.sleep(self._latency.thread())
        if self._broken():
            return dict.fromkeys(filters, FilterOutcome.not_evaluated("the process of the filter ended"))
        event = msgspec.json.decode(view)
        return {text: self._evaluator.evaluate(text, event) for text in filters}
