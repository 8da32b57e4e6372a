"""Makes the calls of one answer: at once or one after the other, told of in the order they were asked for.

Which host calls are made in which order depends on nothing but what the model asked for and what the tools
answered, so that a run can be taken up again from its journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hostler_sdk import RunContext, tool_completed, tool_started
from hostler_sdk.errors import HostError
from hostler_sdk.results import Result
from hostler_sdk.types import ModelMessage
from local_agent.kept_results import KeptResults
from local_agent.settings import Settings
from local_agent.tool_results import Outcome, Told, journalled, told, told_problem
from local_agent.wishes import Wish

MAX_CALLS_AT_ONCE = 64
"""Calls of one answer under way together: as many as one pause may hold for a person to decide."""


async def tool_round(
    ctx: RunContext, settings: Settings, wishes: Sequence[Wish], kept: KeptResults
) -> list[ModelMessage]:
    """Make the calls; exactly one tool message for each, in their order."""
    if settings.tool_execution_mode == "serial":
        return [message for wish in wishes for message in await _together(ctx, [wish], kept)]
    messages: list[ModelMessage] = []
    for start in range(0, len(wishes), MAX_CALLS_AT_ONCE):
        messages += await _together(ctx, wishes[start : start + MAX_CALLS_AT_ONCE], kept)
    return messages


async def refused_round(ctx: RunContext, wishes: Sequence[Wish], why: str) -> list[ModelMessage]:
    """Make none of the calls, and tell the model why."""
    messages = []
    for wish in wishes:
        await ctx.emit(_started(wish))
        messages.append(await _completed(ctx, wish, told_problem(wish, why, "limit_reached")))
    return messages


async def _together(ctx: RunContext, wishes: Sequence[Wish], kept: KeptResults) -> list[ModelMessage]:
    for wish in wishes:
        await ctx.emit(_started(wish))
    calls = [
        asyncio.create_task(_outcome(ctx, wish, kept)) if wish.problem is None else None for wish in wishes
    ]
    try:
        messages = []
        for wish, call in zip(wishes, calls, strict=True):
            if call is None:
                report = told_problem(wish, wish.problem or "")
            else:
                outcome = await call
                _raise_if_over(ctx, outcome.error)
                report = await told(ctx, wish, outcome, kept)
            messages.append(await _completed(ctx, wish, report))
        return messages
    finally:
        open_ = [call for call in calls if call is not None and not call.done()]
        for call in open_:
            call.cancel()
        if open_:
            await asyncio.wait(open_)


async def _outcome(ctx: RunContext, wish: Wish, kept: KeptResults) -> Outcome:
    try:
        if wish.reads:
            return Outcome(await kept.read(wish.parameters))
        result = await ctx.tools.call(wish.tool or "", wish.parameters, tool_call_id=wish.call_id)
    except HostError as error:
        return Outcome(error=error)
    return Outcome(result)


def _raise_if_over(ctx: RunContext, error: HostError | None) -> None:
    """Raise what is no outcome of the call, but the end of the run."""
    if error is not None and (error.code == "deadline_exceeded" or ctx.cancelled):
        raise error


def _started(wish: Wish) -> Result:
    return tool_started(wish.call_id, wish.shown_name, journalled(wish.parameters))


async def _completed(ctx: RunContext, wish: Wish, report: Told) -> ModelMessage:
    await ctx.emit(tool_completed(wish.call_id, wish.shown_name, report.result, report.error))
    return report.message
