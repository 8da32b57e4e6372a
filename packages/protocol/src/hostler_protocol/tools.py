"""Tools on the link: the host asks the plugin that offers one to run it, or what came of an earlier call."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Lenient, Sparse, always
from hostler_protocol.events import Actor
from hostler_protocol.limits import Count


class ToolCallContext(Lenient, omit_defaults=True):
    """For whom a tool is called. `effect_key` is the same whenever the same call is made again.

    `deadline` in UTC epoch seconds; absent: never.
    """

    run_id: str
    call_id: str
    effect_key: str
    workspace_id: str = ""
    actor: Actor | None = None
    deadline: float | None = None


class ToolInvokeParams(Lenient):
    """`tool/call`: run a tool, named as in its manifest. Answers come in any order.

    The tool's own error is the answer's error: `invalid_argument` where the parameters do not fit,
    `payload_too_large` for a result that fits into no message, `cancelled` after `tool/cancel`, else
    `runtime_error` with its text.
    """

    tool_name: str
    context: ToolCallContext
    parameters: dict[str, Any] = {}


class ToolOutcome(Lenient):
    """The tool's result as plain JSON. Of one over `max_result_bytes` the host makes an artifact."""

    result: Any


class KeptResult(Sparse):
    """What stands for a tool's result over `max_result_bytes`, which became an artifact.

    Its content is the result as JSON, or, of one that is text, that text. `preview` is how it begins.
    """

    artifact_id: str
    size_bytes: Count
    preview: str
    mime_type: str | None = None
    file_name: str | None = None
    type: Literal["artifact"] = always("artifact")


class ToolLookupParams(Lenient):
    """`tool/lookup`: ask a reconcilable tool what came of the call with this effect key."""

    tool_name: str
    effect_key: str
    context: ToolCallContext


class ToolFound(Sparse):
    """What the tool has recorded under the key; `found` is false where it has nothing."""

    found: bool
    result: Any = None


class ToolCancelNote(Lenient):
    """`tool/cancel`: nobody waits for that `tool/call` or `tool/lookup` any more, by its request id.

    The tool is stopped if it can be; the request is answered all the same.
    """

    id: int | str
