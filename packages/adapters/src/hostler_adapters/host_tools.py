"""Tools of the host as functions that a model can be offered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hostler_sdk import HostError, RunContext, tool_completed, tool_started
from hostler_sdk.function_names import function_names
from hostler_sdk.types import ToolResource

MAX_TOOLS = 128
"""Functions of one request, as many as common services take."""
MAX_REPORTED_CHARS = 64 * 1024
"""Arguments or result of a tool of the framework's own, as reported to the journal."""
_REASONS = {
    "denied": "a person refused this call; do not make it again unless the user asks for it",
    "expired": "nobody decided about this call in time, so it was not made",
    "cancelled": "this call was called off and not made",
}


class ToolFailed(Exception):  # noqa: N818 - read as a sentence where it is raised and caught
    """A call of a host tool was refused or failed. The text is for the model."""


@dataclass(frozen=True, slots=True)
class HostTool:
    """A tool that the run may call. `name` is its function name, `tool_name` that of the host."""

    name: str
    tool_name: str
    description: str
    parameters: dict[str, Any]
    ctx: RunContext = field(repr=False, compare=False)

    async def call(self, arguments: Mapping[str, Any], call_id: str | None = None) -> Any:
        """Call the tool and return its result as JSON values. May wait for a person, and park the run.

        Raises ToolFailed with a text for the model; HostError if the run is over.
        """
        shown = call_id or self.name
        await self.ctx.emit(tool_started(shown, self.tool_name, dict(arguments)))
        try:
            result = await self.ctx.tools.call(self.tool_name, arguments, tool_call_id=call_id)
        except HostError as error:
            if error.code == "deadline_exceeded" or self.ctx.cancelled:
                raise
            reason = _REASONS.get(error.code)
            text = f"{reason} ({error.message})" if reason else error.message
            await self.ctx.emit(
                tool_completed(shown, self.tool_name, error={"code": error.code, "message": text})
            )
            raise ToolFailed(text) from error
        await self.ctx.emit(tool_completed(shown, self.tool_name, reported(result)))
        return result

    async def call_text(self, arguments: str | Mapping[str, Any], call_id: str | None = None) -> str:
        """Call the tool and return its result as text: other values as JSON, a failure as its reason.

        `arguments` may be the model's own text; what is no JSON object is answered to the model.
        """
        try:
            given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
        except json.JSONDecodeError as error:
            return f"error: the arguments are not JSON: {error}"
        if not isinstance(given, Mapping):
            return "error: the arguments must be a JSON object"
        try:
            return text_of_result(await self.call(given, call_id))
        except ToolFailed as error:
            return f"error: {error}"

    @property
    def openai(self) -> dict[str, Any]:
        """The function in the form of OpenAI's chat completions."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def text_of_result(result: Any) -> str:
    """Return a tool's result as text for a model."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def reported(value: Any) -> Any:
    """Return arguments or a result as shown in the journal: shortened where they are long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > MAX_REPORTED_CHARS:
        return f"{text[:MAX_REPORTED_CHARS]} ... ({len(text):,} characters)"
    return value if isinstance(value, str) else json.loads(text)


async def open_tools(ctx: RunContext) -> list[HostTool]:
    """Read the details of the tools that the run may call, in the order of its resources."""
    granted = [tool for tool in ctx.resources.tools if "call" in tool.operations]
    if len(granted) > MAX_TOOLS:
        text = (
            f"{len(granted)} tools are granted to this run, and the first {MAX_TOOLS} are offered, as many "
            "as services take; name fewer in the agent's `allowed_tool_names`"
        )
        await ctx.log(text, "warning")
        granted = granted[:MAX_TOOLS]
    names = function_names([tool.tool_name for tool in granted])
    return [await _open(ctx, tool, names[tool.tool_name]) for tool in granted]


async def _open(ctx: RunContext, tool: ToolResource, name: str) -> HostTool:
    if "detail" not in tool.operations:
        return HostTool(
            name, tool.tool_name, tool.description or "", {"type": "object", "properties": {}}, ctx
        )
    detail = await ctx.tools.detail(tool.tool_name)
    parameters = {"type": "object", "properties": {}, **(detail.parameters or {})}
    return HostTool(name, tool.tool_name, detail.description or tool.description or "", parameters, ctx)
