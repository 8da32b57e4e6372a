"""Make what a platform sent into JSON that every host reads.

Python reads JSON that others cannot: half a surrogate pair, as of a text cut within a character,
numbers of any size, and nan. An event that cannot be encoded would be lost, or come again and again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_protocol.channels import ChannelEvent
from hostler_protocol.json_values import json_problem
from hostler_protocol.limits import MAX_JSON_DEPTH
from hostler_sdk.errors import writable

DEEPEST = MAX_JSON_DEPTH - 8
"""What is nested deeper is left out: the messages around an event take some levels, too."""
TOO_DEEP = "(nested too deep)"


def sanitized(event: ChannelEvent) -> ChannelEvent:
    """Return an event that can be encoded: itself, if it is as it should be.

    Half characters become question marks, too large integers texts, and nan and infinities null.
    """
    if json_problem(event) is None:
        return event
    whole: ChannelEvent = _cleaned(event, 0)
    return whole


def _cleaned(value: Any, depth: int) -> Any:  # noqa: PLR0911 - one for each kind of value
    if isinstance(value, str):
        return writable(value)
    if value is None or isinstance(value, bool) or value is msgspec.UNSET:
        return value
    if isinstance(value, int | float):
        return _number(value)
    if depth >= DEEPEST:
        return TOO_DEEP
    if isinstance(value, dict):
        return {writable(str(key)): _cleaned(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner, depth + 1) for inner in value]
    if isinstance(value, msgspec.Struct):
        fields = {name: _cleaned(getattr(value, name), depth + 1) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return writable(str(value))


def _number(value: float) -> Any:
    problem = json_problem(value)
    if problem is None:
        return value
    return str(value) if isinstance(value, int) else None
