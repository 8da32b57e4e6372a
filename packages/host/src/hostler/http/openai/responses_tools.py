"""Tools of the caller, as a request of Responses has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.type_fit import misfit
from hostler.http.openai.responses_request import refused
from hostler_protocol._base import Lenient
from hostler_protocol.events import CallerTool
from hostler_protocol.limits import MAX_CALLER_TOOLS


class _Function(Lenient):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


def read_tools(given: Sequence[dict[str, Any]] | None, choice: Any) -> list[CallerTool]:
    """Return the tools that the client carries out. `choice`: `none` leaves all of them out.

    InvalidArgumentError names the tool that is no function: others are OpenAI's own, or servers that the
    host would have to be configured with.
    """
    if given is not None and len(given) > MAX_CALLER_TOOLS:
        raise refused("tools", f"tools: {len(given):,} tools; at most {MAX_CALLER_TOOLS}")
    tools: list[CallerTool] = []
    for number, tool in enumerate(given or []):
        place = f"tools[{number}]"
        kind = tool.get("type", "function")
        if kind != "function":
            raise refused(
                f"{place}.type",
                f"{place}: tools of the type {str(kind)[:100]!r} are not taken; send functions, which you "
                "carry out, and give the agent all others in its configuration",
            )
        try:
            function = msgspec.convert(tool, _Function)
        except msgspec.ValidationError as error:
            raise refused(place, f"{place}: {misfit(error, _Function).sentence}") from None
        tools.append(
            CallerTool(
                name=function.name,
                description=function.description or "",
                parameters=function.parameters or {},
            )
        )
    return [] if choice == "none" else tools


def tools_shown(tools: Sequence[CallerTool]) -> list[dict[str, Any]]:
    """Return the tools of a request as its response repeats them."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": None,
        }
        for tool in tools
    ]
