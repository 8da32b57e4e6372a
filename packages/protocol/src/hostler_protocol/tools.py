"""Tools of plugins: the host calls one, cancels a call, or looks up the outcome of an earlier call."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Lenient, Sparse, always
from hostler_protocol.events import Actor
from hostler_protocol.limits import Count


class ToolCallContext(Lenient, omit_defaults=True):
    """Run and caller of a tool call. `effect_key` stays the same when the host repeats the call.

    `deadline` in UTC epoch seconds; absent: none.
    """

    run_id: str
    call_id: str
    effect_key: str
    workspace_id: str = ""
    actor: Actor | None = None
    deadline: float | None = None


class ToolInvokeParams(Lenient):
    """`tool/call`: run a tool, named as in its manifest. Answers come in any order.

    A failed call is answered with an error: `invalid_argument` if the parameters do not match the tool's
    schema, `payload_too_large` if the result does not fit into a message, `cancelled` after `tool/cancel`,
    else `runtime_error` with the text of the tool's exception.
    """

    tool_name: str
    context: ToolCallContext
    parameters: dict[str, Any] = {}


class ToolOutcome(Lenient):
    """The tool's result as plain JSON. The host stores one over `max_result_bytes` as an artifact."""

    result: Any


class KeptResult(Sparse):
    """Reference that replaces a tool's result over `max_result_bytes`, which was stored as an artifact.

    The artifact holds the result as JSON, or as plain text if the result is a string. `preview` is its
    beginning.
    """

    artifact_id: str
    size_bytes: Count
    preview: str
    mime_type: str | None = None
    file_name: str | None = None
    type: Literal["artifact"] = always("artifact")


class ToolLookupParams(Lenient):
    """`tool/lookup`: ask a reconcilable tool for the recorded outcome of the call with this effect key."""

    tool_name: str
    effect_key: str
    context: ToolCallContext


class ToolFound(Sparse):
    """The result recorded under the effect key; `found` is false if the tool has no record of the call."""

    found: bool
    result: Any = None


class ToolCancelNote(Lenient):
    """`tool/cancel`: the host no longer needs the answer to the `tool/call` or `tool/lookup` with this id.

    The plugin stops the tool if it can, and answers the request in any case.
    """

    id: int | str
