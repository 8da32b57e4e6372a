"""What became of a tool call, as the model and the journal are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler_sdk import RunContext, artifact, log
from hostler_sdk.errors import HostError
from hostler_sdk.types import ModelMessage
from local_agent.requested_calls import RequestedCall
from local_agent.stored_results import StoredResults
from local_agent.truncation import shortened

PREVIEW_CHARS = 2_000
"""Beginning and end of a result that became a file: enough to see what it is."""
MAX_SKILL_CHARS = 400_000
"""Of what a skill gives: the host bounds it already, and half of a skill is none."""
MAX_JOURNAL_CHARS = 64 * 1024
"""Of parameters and results in the journal's telemetry: far below the size of one result."""
_TOLD = {
    "denied": "a person refused this call; do not make it again unless the user asks for it",
    "expired": "nobody decided about this call in time, so it was not made",
    "cancelled": "this call was called off and not made",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: its result, or the error."""

    result: Any = None
    error: HostError | None = None


@dataclass(frozen=True, slots=True)
class ToolReport:
    """The same as told: the tool message for the model, result or error for the journal."""

    message: ModelMessage
    result: Any = None
    error: dict[str, str] | None = None


def report_problem(wish: RequestedCall, problem: str, code: str = "invalid_argument") -> ToolReport:
    """What is told of a call that was not made."""
    return _told_error(wish, code, problem)


async def told(ctx: RunContext, wish: RequestedCall, outcome: Outcome, kept: StoredResults) -> ToolReport:
    """What is told of a call that was made; a result of more than `kept.most` characters becomes a file."""
    if outcome.error is not None:
        error = outcome.error
        reason = _TOLD.get(error.code)
        text = f"{reason} ({error.message})" if reason else error.message
        return _told_error(wish, error.code, shortened(text, kept.most))
    text = text_of_result(outcome.result)
    if wish.reads or len(text) <= (MAX_SKILL_CHARS if wish.is_skill else kept.most):
        result = outcome.result if len(text) <= MAX_JOURNAL_CHARS else shortened(text, PREVIEW_CHARS)
        return ToolReport(_message(wish, text), result)
    return await _told_as_file(ctx, wish, text, isinstance(outcome.result, str), kept)


async def _told_as_file(
    ctx: RunContext, wish: RequestedCall, text: str, plain: bool, kept: StoredResults
) -> ToolReport:
    kind, ending = ("text/plain; charset=utf-8", "txt") if plain else ("application/json", "json")
    name = f"{wish.call.function.name}.{ending}"
    preview = shortened(text, min(PREVIEW_CHARS, kept.most))
    try:
        artifact_id = await ctx.artifacts.upload(
            text.encode("utf-8", "replace"), artifact_type="tool_result", name=name, mime_type=kind
        )
    except HostError as error:
        if error.code in ("deadline_exceeded", "cancelled"):
            raise
        await ctx.emit(
            log(f"the result of {wish.shown_name!r} could not be kept as a file: {error.message}", "warning")
        )
        note = f"The result has {len(text):,} characters, which is too long to show; a part of it:\n{preview}"
        return ToolReport(_message(wish, note), {"preview": preview, "characters": len(text)})
    await ctx.emit(artifact("tool_result", artifact_id=artifact_id, name=name, mime_type=kind))
    kept.keep(artifact_id)
    how = ", which can be read on in part by part" if kept.can_be_read else ""
    note = (
        f"The result has {len(text):,} characters, which is too long to show. All of it is kept as artifact "
        f"{artifact_id} ({name}){how}; a part of it:\n{preview}"
    )
    result = {"artifact_id": artifact_id, "characters": len(text), "preview": preview}
    return ToolReport(_message(wish, note), result)


def text_of_result(result: Any) -> str:
    """A result as text: itself where it is text, else its JSON."""
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


def journalled(parameters: dict[str, Any]) -> Any:
    """Parameters for the journal's telemetry; those too large for it by their beginning."""
    text = msgspec.json.encode(parameters).decode()
    if len(text) <= MAX_JOURNAL_CHARS:
        return parameters
    return {"characters": len(text), "preview": shortened(text, PREVIEW_CHARS)}


def _told_error(wish: RequestedCall, code: str, text: str) -> ToolReport:
    return ToolReport(_message(wish, f"Error ({code}): {text}"), error={"code": code, "message": text})


def _message(wish: RequestedCall, text: str) -> ModelMessage:
    return ModelMessage(role="tool", content=text, tool_call_id=wish.call_id)
