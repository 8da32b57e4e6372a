"""Check calls before people are asked: sizes, counts and forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.forms import check_actions, check_fields
from hostler.domain.pause_values import NewCall
from hostler.domain.pauses import (
    MAX_ARGUMENTS_BYTES,
    MAX_CALLS,
    MAX_DESCRIPTION_BYTES,
    MAX_NAME_CHARS,
    MAX_SCHEMA_BYTES,
    MAX_TITLE_CHARS,
)
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.pausing import expiry_misfit


def check_calls(calls: Sequence[NewCall]) -> None:
    """Check the calls of a new pause. PayloadTooLargeError or InvalidArgumentError names call and limit."""
    if not calls:
        raise InvalidArgumentError("a pause without a call waits for nothing: name at least one")
    check_room(0, len(calls))
    if len({call.call_id for call in calls}) < len(calls):
        raise InvalidArgumentError("two calls of the pause have one id")
    for call in calls:
        asked = call.asked
        _check_name(call.call_id, "call_id")
        if asked.tool_name is not None:
            _check_name(asked.tool_name, "tool_name")
        check_size(asked.arguments, MAX_ARGUMENTS_BYTES, f"arguments of {asked.tool_name or asked.title!r}")
        check_size(asked.args_schema, MAX_SCHEMA_BYTES, "JSON Schema of the arguments")
        check_size(asked.result_schema, MAX_SCHEMA_BYTES, "JSON Schema of the result")
        check_size([asked.fields, asked.actions], MAX_SCHEMA_BYTES, "form")
        check_size(asked.description, MAX_DESCRIPTION_BYTES, "description")
        check_size(asked.fallback_text, MAX_DESCRIPTION_BYTES, "fallback_text")
        check_fields(asked.fields)
        check_actions(asked.actions)
        if (misfit := expiry_misfit(asked.expires_in)) is not None:
            raise InvalidArgumentError(misfit)
        if len(asked.title) > MAX_TITLE_CHARS:
            raise PayloadTooLargeError(
                f"title: {len(asked.title)} characters; at most {MAX_TITLE_CHARS}", limit=MAX_TITLE_CHARS
            )


def _check_name(name: str, what: str) -> None:
    if not 1 <= len(name) <= MAX_NAME_CHARS or "\x00" in name:
        raise InvalidArgumentError(
            f"{what} {name!r:.60}: 1 to {MAX_NAME_CHARS} characters without NUL are possible"
        )


def check_room(existing: int, more: int) -> None:
    """Check that a pause has room for more calls. PayloadTooLargeError."""
    if existing + more > MAX_CALLS:
        raise PayloadTooLargeError(
            f"{existing + more} calls would wait together; at most {MAX_CALLS}", limit=MAX_CALLS
        )


def check_size(value: Any, limit: int, what: str) -> None:
    """Check that `value` has at most `limit` bytes as JSON. PayloadTooLargeError."""
    size = len(msgspec.json.encode(value))
    if size > limit:
        raise PayloadTooLargeError(f"{what}: {size:,} bytes of JSON; at most {limit:,}", limit=limit)
