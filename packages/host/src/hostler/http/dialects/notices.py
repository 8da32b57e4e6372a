"""What a dialect says where it has no word for a decision: what is asked, and where to decide it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from hostler_protocol.pausing import FormField
from hostler_protocol.results import InteractionRequested

MAX_FIELDS_SHOWN = 20
"""Fields of a form in the text; the pause has all of them."""
MAX_ARGUMENTS_SHOWN = 2000
"""Characters of a call's arguments in the text; the pause has all of them."""


def where_to_decide(run_id: str, asked: InteractionRequested) -> str:
    """Return what a run asks, and how people decide it. The same for equal results."""
    return "\n".join(_lines(run_id, asked))


def name_of_arguments(asked: InteractionRequested) -> str | None:
    """Return what the arguments of a request are shown as: its tool, or `budget`; None if it has none."""
    if asked.tool_name is not None:
        return asked.tool_name
    return asked.kind if asked.arguments else None


def _lines(run_id: str, asked: InteractionRequested) -> Iterator[str]:
    yield asked.fallback_text or asked.title or f"Waiting for a decision ({asked.kind})"
    if asked.description and not asked.fallback_text:
        yield asked.description
    if not asked.fallback_text:
        for field in asked.fields[:MAX_FIELDS_SHOWN]:
            yield f"- {_field(field)}"
        for button in asked.actions[:MAX_FIELDS_SHOWN]:
            yield f"- [{button.label or button.name}]"
    if (name := name_of_arguments(asked)) is not None:
        yield f"{name}: {_arguments(asked)}"
    if asked.expires_at is not None:
        yield f"It expires at {datetime.fromtimestamp(asked.expires_at, UTC):%Y-%m-%d %H:%M:%S} UTC."
    yield (
        f"This waits for people (call {asked.call_id}). To decide: "
        f"`hostler pauses list --run {run_id}`, or GET /v1/pauses?run_id={run_id} and "
        "POST /v1/pauses/{id}/actions."
    )


def _arguments(asked: InteractionRequested) -> str:
    text = json.dumps(asked.arguments, ensure_ascii=False)
    if len(text) > MAX_ARGUMENTS_SHOWN:
        return f"{len(text):,} characters of arguments"
    return text


def _field(field: FormField) -> str:
    name = field.label or field.name
    options = ", ".join(str(option) for option in field.options[:MAX_FIELDS_SHOWN])
    return f"{name}: {options}" if options else name
