"""Check values against a plugin's JSON Schema: offline, with bounds on time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hostler.tools.schema_cost import MAX_DEPTH, SchemaError, StepCounter
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.limits import MAX_TOOL_ARGUMENT_BYTES

MAX_SCHEMA_BYTES = 256 * 1024
"""Size of a schema as JSON."""
MAX_PATTERNS = 64
"""Regular expressions of one schema: each is compiled when the tool is listed."""
MAX_PATTERN_BYTES = 256 * 1024
"""Memory of one compiled regular expression."""
MAX_STEPS = 1_000_000
"""Steps of one check: about 30 ms of one core."""
MAX_EXPLAINED_STEPS = 5_000
"""Steps of a check whose failure is explained: an explanation costs a thousand times as much as a check."""
OFF_LOOP_BYTES = 64 * 1024
"""Larger results are checked in a thread: a megabyte can take a second."""
MAX_MESSAGE_CHARS = 300
"""Length of the message about one mistake, which may quote the value."""
MAX_MISTAKES = 5
"""Mistakes in one error."""


class ToolSchema:
    """A compiled schema. Raises SchemaError, one sentence, if it cannot be used."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            encoded = msgspec.json.encode(schema)
        except RecursionError:
            raise SchemaError(f"it is nested over {MAX_DEPTH} levels deep") from None
        if len(encoded) > MAX_SCHEMA_BYTES:
            raise SchemaError(f"it has {len(encoded):,} bytes; at most {MAX_SCHEMA_BYTES:,} are allowed")
        plain = msgspec.json.decode(encoded)
        self._steps = StepCounter(plain)
        if (patterns := _patterns(plain)) > MAX_PATTERNS:
            raise SchemaError(f"it has {patterns:,} patterns; at most {MAX_PATTERNS} are allowed")
        import jsonschema_rs  # noqa: PLC0415  large, and not needed by a host without tools

        bounds = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES, dfa_size_limit=MAX_PATTERN_BYTES)
        refused = (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError)
        try:
            self._validator = jsonschema_rs.validator_for(plain, offline=True, pattern_options=bounds)
        except refused as error:
            raise SchemaError(f"it is no JSON Schema: {_short(_first_line(error))}") from error

    def check(self, value: Any, what: str) -> None:
        """Raise InvalidArgumentError with each mistake and its place; `what` names the value."""
        steps = self._steps.count(value, MAX_STEPS)
        if steps is None:
            raise InvalidArgumentError(f"{what}: too deep, or too much work to hold against the schema")
        if self._validator.is_valid(value):
            return
        if steps > MAX_EXPLAINED_STEPS:
            raise InvalidArgumentError(f"{what}: they do not fit the schema")
        mistakes = []
        for error in self._validator.iter_errors(value):
            mistakes.append(f"at {_path(error.instance_path)}: {_short(error.message)}")
            if len(mistakes) == MAX_MISTAKES:
                break
        raise InvalidArgumentError(f"{what}: {'; '.join(mistakes)}")

    def check_arguments(self, tool_name: str, parameters: Mapping[str, Any]) -> None:
        """Check the arguments of a tool. Raises PayloadTooLargeError or InvalidArgumentError."""
        check_argument_size(tool_name, parameters)
        self.check(dict(parameters), f"parameters of {tool_name}")


async def check_off_loop(value: Any, check: Callable[[], None]) -> None:
    """Run a check of a value; in a thread if the value is large, so that the loop is not blocked."""
    try:
        is_large = len(msgspec.json.encode(value)) > OFF_LOOP_BYTES
    except RecursionError:
        is_large = True
    if is_large:
        await asyncio.to_thread(check)
    else:
        check()


def check_argument_size(tool_name: str, parameters: Mapping[str, Any]) -> None:
    """Raise PayloadTooLargeError or InvalidArgumentError if the arguments are too large or too deep."""
    try:
        size = len(msgspec.json.encode(parameters))
    except RecursionError:
        raise InvalidArgumentError(f"parameters of {tool_name}: nested too deep") from None
    if size > MAX_TOOL_ARGUMENT_BYTES:
        raise PayloadTooLargeError(
            f"the parameters of {tool_name} have {size:,} bytes; "
            f"at most {MAX_TOOL_ARGUMENT_BYTES:,} are allowed",
            limit_bytes=MAX_TOOL_ARGUMENT_BYTES,
        )


def _patterns(schema: Any) -> int:
    """Return the greatest possible number of regular expressions."""
    found, waiting = 0, [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found += isinstance(part.get("pattern"), str)
            properties = part.get("patternProperties")
            found += len(properties) if isinstance(properties, dict) else 0
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return found


def _path(path: list[str | int]) -> str:
    return "/" + "/".join(str(part) for part in path) if path else "the top"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _short(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else f"{text[: MAX_MESSAGE_CHARS - 3]}..."
