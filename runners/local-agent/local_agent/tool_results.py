"""The outcome of a tool call, as reported to the model and to the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler_sdk import RunContext, artifact, log
from hostler_sdk.errors import HostError
from hostler_sdk.types import ModelMessage
from local_agent.requested_calls import RequestedCall
from local_agent.run_errors import ends_the_run
from local_agent.stored_results import StoredResults
from local_agent.truncation import shortened

PREVIEW_CHARS = 2_000
"""Beginning and end of a result that is stored as a file: enough to see what it is."""
MAX_SKILL_CHARS = 400_000
"""Text of a skill. The host limits it already, and a part of a skill is of no use."""
MAX_JOURNAL_CHARS = 64 * 1024
"""Parameters or result in the journal's telemetry: far below the limit of one result."""
_MESSAGES = {
    "denied": "a person refused this call; do not make it again unless the user asks for it",
    "expired": "nobody decided about this call in time, so it was not made",
    "cancelled": "this call was called off and not made",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call, or its error."""

    result: Any = None
    error: HostError | None = None


@dataclass(frozen=True, slots=True)
class ToolReport:
    """The outcome as reported: the tool message for the model, and result or error for the journal."""

    message: ModelMessage
    result: Any = None
    error: dict[str, str] | None = None


def report_problem(requested: RequestedCall, problem: str, code: str = "invalid_argument") -> ToolReport:
    """Report a call that was not made."""
    return _error_report(requested, code, problem)


async def report_outcome(
    ctx: RunContext, requested: RequestedCall, outcome: Outcome, kept: StoredResults
) -> ToolReport:
    """Report a call that was made. A result of more than `kept.most` characters is stored as a file."""
    if outcome.error is not None:
        error = outcome.error
        reason = _MESSAGES.get(error.code)
        text = f"{reason} ({error.message})" if reason else error.message
        return _error_report(requested, error.code, shortened(text, kept.most))
    text = text_of_result(outcome.result)
    if requested.reads or len(text) <= (MAX_SKILL_CHARS if requested.is_skill else kept.most):
        result = outcome.result if len(text) <= MAX_JOURNAL_CHARS else shortened(text, PREVIEW_CHARS)
        return ToolReport(_message(requested, text), result)
    return await _file_report(ctx, requested, text, isinstance(outcome.result, str), kept)


async def _file_report(
    ctx: RunContext, requested: RequestedCall, text: str, plain: bool, kept: StoredResults
) -> ToolReport:
    kind, ending = ("text/plain; charset=utf-8", "txt") if plain else ("application/json", "json")
    name = f"{requested.call.function.name}.{ending}"
    preview = shortened(text, min(PREVIEW_CHARS, kept.most))
    try:
        artifact_id = await ctx.artifacts.upload(
            text.encode("utf-8", "replace"), artifact_type="tool_result", name=name, mime_type=kind
        )
    except HostError as error:
        if ends_the_run(error):
            raise
        await ctx.emit(
            log(
                f"the result of {requested.shown_name!r} could not be kept as a file: {error.message}",
                "warning",
            )
        )
        note = f"The result has {len(text):,} characters, which is too long to show; a part of it:\n{preview}"
        return ToolReport(_message(requested, note), {"preview": preview, "characters": len(text)})
    await ctx.emit(artifact("tool_result", artifact_id=artifact_id, name=name, mime_type=kind))
    kept.keep(artifact_id)
    how = ", which can be read on in part by part" if kept.can_be_read else ""
    note = (
        f"The result has {len(text):,} characters, which is too long to show. All of it is kept as artifact "
        f"{artifact_id} ({name}){how}; a part of it:\n{preview}"
    )
    result = {"artifact_id": artifact_id, "characters": len(text), "preview": preview}
    return ToolReport(_message(requested, note), result)


def text_of_result(result: Any) -> str:
    """Return a result as text: a text as it is, other values as JSON."""
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


def journalled(parameters: dict[str, Any]) -> Any:
    """Return parameters for the journal's telemetry; if they are too large, their beginning."""
    text = msgspec.json.encode(parameters).decode()
    if len(text) <= MAX_JOURNAL_CHARS:
        return parameters
    return {"characters": len(text), "preview": shortened(text, PREVIEW_CHARS)}


def _error_report(requested: RequestedCall, code: str, text: str) -> ToolReport:
    return ToolReport(_message(requested, f"Error ({code}): {text}"), error={"code": code, "message": text})


def _message(requested: RequestedCall, text: str) -> ModelMessage:
    return ModelMessage(role="tool", content=text, tool_call_id=requested.call_id)
