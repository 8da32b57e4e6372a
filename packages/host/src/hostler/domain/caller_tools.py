"""Tools that the sender of an event carries out itself: `input.tools`. Pure.

They join the tools of the run that serves the event, and a call of one waits for the sender. The tools of a
run are frozen with its grant. A message that brings others is therefore no steer of that run: it gets a run
of its own, unless all of its tools are those of the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hostler.domain.agents import Agent
from hostler.domain.keys import check_depth
from hostler.domain.tool_pins import ToolPin
from hostler.domain.unseen_text import seen_text
from hostler_protocol.errors import (
    CallerError,
    DeniedError,
    InvalidArgumentError,
    PayloadTooLargeError,
)
from hostler_protocol.events import CallerTool
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.limits import (
    MAX_CALLER_TOOL_BYTES,
    MAX_CALLER_TOOL_DESCRIPTION_CHARS,
    MAX_CALLER_TOOLS,
    MAX_CALLER_TOOLS_BYTES,
    MAX_TOOL_NAME_CHARS,
)

OWNER = "caller"
"""Owner of their pins; no plugin's key and no server's name is like it."""
_NAME = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9_.-]{{0,{MAX_TOOL_NAME_CHARS - 1}}}")


def check_caller_tools(tools: Sequence[CallerTool]) -> None:
    """Check number, names and sizes. InvalidArgumentError or PayloadTooLargeError names the tool.

    Whether their schemas can be used is looked at by `tools.caller_tools`: that takes longer.
    """
    if len(tools) > MAX_CALLER_TOOLS:
        raise PayloadTooLargeError(f"input.tools has {len(tools):,} tools; at most {MAX_CALLER_TOOLS}")
    names: set[str] = set()
    total = 0
    for number, tool in enumerate(tools):
        place = f"input.tools[{number}]"
        if not _NAME.fullmatch(tool.name):
            raise InvalidArgumentError(
                f"{place}.name {tool.name[:100]!r}: expected letters, digits, '_', '-' and '.', not "
                f"beginning with '.', at most {MAX_TOOL_NAME_CHARS} in all"
            )
        if tool.name in names:
            raise InvalidArgumentError(f"{place}.name {tool.name!r} appears twice; each tool needs its own")
        names.add(tool.name)
        total += _check_size(tool, place)
    if total > MAX_CALLER_TOOLS_BYTES:
        raise PayloadTooLargeError(
            f"input.tools has {total:,} bytes of JSON; at most {MAX_CALLER_TOOLS_BYTES:,}"
        )


def _check_size(tool: CallerTool, place: str) -> int:
    """Return the size of a tool as JSON."""
    if len(tool.description) > MAX_CALLER_TOOL_DESCRIPTION_CHARS:
        raise PayloadTooLargeError(
            f"{place}.description has {len(tool.description):,} characters; "
            f"at most {MAX_CALLER_TOOL_DESCRIPTION_CHARS:,}"
        )
    check_depth(f"{place}.parameters", tool.parameters)
    if tool.parameters.get("type", "object") != "object":
        raise InvalidArgumentError(f"{place}.parameters: the schema must be of an object")
    size = len(msgspec.json.encode(tool))
    if size > MAX_CALLER_TOOL_BYTES:
        raise PayloadTooLargeError(
            f"{place} ({tool.name!r}) has {size:,} bytes of JSON; at most {MAX_CALLER_TOOL_BYTES:,}"
        )
    return size


def refusal(agent: Agent, tools: Iterable[CallerTool], own: Collection[str]) -> CallerError | None:
    """Return why the agent does not take these tools, or None. `own`: the names of its own tools.

    A name that the agent has itself is refused. If the sender's tool replaced it, a sender could answer in
    place of a tool that the operator relies on; if the agent's own went before, the host would carry out what
    the sender believes to do itself.
    """
    names = [tool.name for tool in tools]
    if not names:
        return None
    if not agent.spec.resource_policy.allow_client_tools:
        return DeniedError(
            f"agent {agent.name!r} takes no tools of its callers: resource_policy.allow_client_tools is "
            "false; send the event without input.tools"
        )
    taken = [name for name in names if name in own]
    if taken:
        return InvalidArgumentError(
            f"input.tools: agent {agent.name!r} has a tool {taken[0]!r} itself; give yours another name, or "
            "leave it out"
        )
    return None


def all_of(turn: Iterable[Sequence[CallerTool]]) -> list[CallerTool]:
    """Return the tools of several messages, given oldest first: of one name the newest message's.

    The tools of newer messages are first, so that `within_bounds` keeps them.
    """
    found: dict[str, CallerTool] = {}
    for tools in reversed(list(turn)):
        for tool in tools:
            found.setdefault(tool.name, tool)
    return list(found.values())


def within_bounds(tools: Iterable[CallerTool], notes: list[str]) -> dict[str, CallerTool]:
    """Return as many as one run may have, by name; each one over that gets a note.

    One event never has more; several messages of one turn may.
    """
    kept: dict[str, CallerTool] = {}
    room = MAX_CALLER_TOOLS_BYTES
    for tool in tools:
        room -= len(msgspec.json.encode(tool))
        if room < 0 or len(kept) == MAX_CALLER_TOOLS:
            notes.append(
                f"tool {tool.name!r} of the caller is left out: the messages of this turn bring more than "
                f"{MAX_CALLER_TOOLS} tools or {MAX_CALLER_TOOLS_BYTES:,} bytes of them"
            )
            continue
        kept[tool.name] = tool
    return kept


def among(tools: Iterable[CallerTool], known: Mapping[str, CallerTool]) -> bool:
    """Whether all of these tools are known, as they are."""
    return all(known.get(tool.name) == tool for tool in tools)


def by_name(tools: Iterable[CallerTool]) -> dict[str, CallerTool]:
    """Return the tools by their names."""
    return {tool.name: tool for tool in tools}


def resource_of(tool: CallerTool, permitted: Collection[str]) -> ToolResource:
    """Return the tool as runs see it, with those of its operations that the manifest permits."""
    return ToolResource(
        tool_name=tool.name,
        tool_type="client",
        description=seen_text(tool.description),
        operations=[operation for operation in ("detail", "call") if operation in permitted],
    )


def pin_of(tool: CallerTool) -> ToolPin:
    """Return its identity: another description or schema makes it another tool."""
    return ToolPin(
        tool_id=f"{OWNER}:{tool.name}",
        owner=OWNER,
        schema_digest=digest([tool.description, tool.parameters]),
        client=True,
    )
