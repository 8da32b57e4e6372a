"""The tools of a run as functions for a model, and the mapping from function names back to tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from hostler_sdk import RunContext, log
from hostler_sdk.errors import HostError
from hostler_sdk.types import FunctionSpec
from local_agent.parameter_names import offered_names, own_names
from local_agent.run_errors import ends_the_run
from local_agent.schemas import MAX_DESCRIPTION_CHARS, offered_schema
from local_agent.stored_results import READ_RESULT, function_of
from local_agent.truncation import shortened

SKILL = "skill"
"""Type of a tool that activates a skill and returns its files."""
MAX_TOOLS = 128
"""Tools offered in one request, a limit of common services."""
ROOM_FOR_MARK = 64
"""Characters for the note that a description was cut."""
MAX_NAME_CHARS = 64
"""A function's name, a limit of common services."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


class Toolbox:
    """Functions with names that services accept. `specs` are the descriptions for the model."""

    def __init__(
        self,
        specs: Sequence[FunctionSpec] = (),
        tools: dict[str, str] | None = None,
        skills: Collection[str] = (),
        parameters: dict[str, dict[str, str]] | None = None,
    ) -> None:
        self.specs = list(specs)
        self._tools = tools or {}
        self._skills = frozenset(skills)
        self._parameters = parameters or {}
        self.reading: str | None = None
        """Name of the function that reads stored results, once it is offered. It is no tool of the host."""

    @property
    def names(self) -> list[str]:
        """The function names that a model may use."""
        return [*self._tools, *([self.reading] if self.reading else [])]

    def find(self, name: str) -> str | None:
        """Return the tool of a function name, or of the tool's own name; None if there is none."""
        return self._tools.get(name) or (name if name in self._tools.values() else None)

    def is_skill(self, tool: str | None) -> bool:
        """Whether a tool activates a skill: its result is instructions, of use only as a whole."""
        return tool in self._skills

    def own_parameters(self, tool: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments under the tool's own names."""
        named: dict[str, Any] = own_names(parameters, self._parameters.get(tool or "", {}))
        return named

    def offer_reading(self) -> None:
        """Offer the function that reads stored results, under a name that no tool has."""
        taken, number = self._tools.keys() | set(self._tools.values()), 1
        while (name := READ_RESULT if number == 1 else f"{READ_RESULT}_{number}") in taken:
            number += 1
        self.reading = name
        self.specs.append(function_of(name))

    def function_of(self, name: str) -> str:
        """Return the function name of a requested call for the next request: one that services accept."""
        if name in self._tools or name == self.reading:
            return name
        given = next((function for function, tool in self._tools.items() if tool == name), None)
        return given or allowed_name(name) or "unknown"


async def open_toolbox(ctx: RunContext) -> Toolbox:
    """Read the details of every tool that the run may call, in the order of its resources."""
    callable_ = [tool for tool in ctx.resources.tools if "call" in tool.operations]
    if len(callable_) > MAX_TOOLS:
        text = (
            f"{len(callable_)} tools are granted to this run, and the first {MAX_TOOLS} are offered, as many "
            "as services take; name fewer in the agent's `allowed_tool_names`"
        )
        await ctx.emit(log(text, "warning"))
        callable_ = callable_[:MAX_TOOLS]
    functions = function_names([tool.tool_name for tool in callable_])
    specs: list[FunctionSpec] = []
    parameters: dict[str, dict[str, str]] = {}
    for tool in callable_:
        function = functions[tool.tool_name]
        if "detail" not in tool.operations:
            specs.append(_spec(function, tool.description, {})[0])
            continue
        try:
            detail = await ctx.tools.detail(tool.tool_name)
        except HostError as error:
            if ends_the_run(error):
                raise
            await ctx.emit(log(f"tool {tool.tool_name!r} was left out: {error.message}", "warning"))
            continue
        spec, own = _spec(function, detail.description or tool.description, detail.parameters)
        specs.append(spec)
        parameters[tool.tool_name] = own
    offered = {spec.name for spec in specs}
    skills = [tool.tool_name for tool in callable_ if tool.tool_type == SKILL]
    tools = {name: tool for tool, name in functions.items() if name in offered}
    return Toolbox(specs, tools, skills, parameters)


def function_names(tools: Sequence[str]) -> dict[str, str]:
    """Return a unique function name for each tool: its own if services accept it, else one built from it."""
    names = {tool: tool for tool in tools if tool and allowed_name(tool) == tool}
    taken = set(names)
    for tool in tools:
        if tool in names:
            continue
        stem = allowed_name(tool) or "tool"
        name, number = stem, 1
        while name in taken:
            number += 1
            ending = f"_{number}"
            name = stem[: MAX_NAME_CHARS - len(ending)] + ending
        taken.add(name)
        names[tool] = name
    return {tool: names[tool] for tool in tools}


def allowed_name(name: str) -> str:
    """Replace the characters that services refuse. Empty if nothing else is left."""
    cleaned = _REFUSED.sub("_", name)[:MAX_NAME_CHARS]
    return cleaned if cleaned.strip("_") else ""


def _spec(function: str, description: str, parameters: dict[str, Any]) -> tuple[FunctionSpec, dict[str, str]]:
    """Build the function as offered, and the tool's own names of renamed parameters."""
    short = shortened(description, MAX_DESCRIPTION_CHARS - ROOM_FOR_MARK)
    schema, own = offered_names(offered_schema(parameters))
    return FunctionSpec(name=function, description=short, parameters=schema), own
