"""Make the tool calls of one answer, in parallel or one by one, and report them in the model's order.

The order of host calls depends only on the model's answer and the results of tools, so that a run can be
resumed from its journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hostler_sdk import RunContext, tool_completed, tool_started
from hostler_sdk.errors import HostError
from hostler_sdk.results import Result
from hostler_sdk.types import ModelMessage
from local_agent.requested_calls import RequestedCall
from local_agent.settings import Settings
from local_agent.stored_results import StoredResults
from local_agent.tool_results import Outcome, ToolReport, journalled, report_outcome, report_problem

MAX_CALLS_AT_ONCE = 64
"""Parallel calls of one answer: as many as one pause may hold for a person to decide."""


async def tool_round(
    ctx: RunContext, settings: Settings, calls: Sequence[RequestedCall], kept: StoredResults
) -> list[ModelMessage]:
    """Make the calls. Return exactly one tool message each, in order."""
    if settings.tool_execution_mode == "serial":
        return [message for call in calls for message in await _together(ctx, [call], kept)]
    messages: list[ModelMessage] = []
    for start in range(0, len(calls), MAX_CALLS_AT_ONCE):
        messages += await _together(ctx, calls[start : start + MAX_CALLS_AT_ONCE], kept)
    return messages


async def refused_round(ctx: RunContext, calls: Sequence[RequestedCall], why: str) -> list[ModelMessage]:
    """Refuse all calls, and report the reason to the model."""
    messages = []
    for call in calls:
        await ctx.emit(_started(call))
        messages.append(await _completed(ctx, call, report_problem(call, why, "limit_reached")))
    return messages


async def _together(
    ctx: RunContext, calls: Sequence[RequestedCall], kept: StoredResults
) -> list[ModelMessage]:
    for call in calls:
        await ctx.emit(_started(call))
    tasks = [
        asyncio.create_task(_outcome(ctx, call, kept)) if call.problem is None else None for call in calls
    ]
    try:
        messages = []
        for call, task in zip(calls, tasks, strict=True):
            if task is None:
                report = report_problem(call, call.problem or "")
            else:
                outcome = await task
                _raise_if_over(ctx, outcome.error)
                report = await report_outcome(ctx, call, outcome, kept)
            messages.append(await _completed(ctx, call, report))
        return messages
    finally:
        open_ = [task for task in tasks if task is not None and not task.done()]
        for task in open_:
            task.cancel()
        if open_:
            await asyncio.wait(open_)


async def _outcome(ctx: RunContext, call: RequestedCall, kept: StoredResults) -> Outcome:
    try:
        if call.reads:
            return Outcome(await kept.read(call.parameters))
        result = await ctx.tools.call(call.tool or "", call.parameters, tool_call_id=call.call_id)
    except HostError as error:
        return Outcome(error=error)
    return Outcome(result)


def _raise_if_over(ctx: RunContext, error: HostError | None) -> None:
    """Raise an error that ends the run. Any other error is the outcome of the call."""
    if error is not None and (error.code == "deadline_exceeded" or ctx.cancelled):
        raise error


def _started(call: RequestedCall) -> Result:
    return tool_started(call.call_id, call.shown_name, journalled(call.parameters))


async def _completed(ctx: RunContext, call: RequestedCall, report: ToolReport) -> ModelMessage:
    await ctx.emit(tool_completed(call.call_id, call.shown_name, report.result, report.error))
    return report.message
