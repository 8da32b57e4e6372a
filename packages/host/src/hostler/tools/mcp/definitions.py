"""Definitions of a server's tools. Each is checked alone, so one bad tool does not affect the others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hostler.domain.record import Record
from hostler.domain.unseen_text import seen_text
from hostler.tools.mcp.limits import MAX_DESCRIPTION_CHARS, MAX_TOOLS, MAX_WARNINGS
from hostler.tools.schema import ToolSchema
from hostler.tools.schema_cost import SchemaError
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_TOOL_NAME_CHARS

_NAME = re.compile(rf"[a-zA-Z_][a-zA-Z0-9_.-]{{0,{MAX_TOOL_NAME_CHARS - 1}}}")
_CUT = " [cut]"


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server defines it: everything that reaches a model or affects how it is called."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    read_only: bool = False
    """The server's claim, as is `idempotent`."""
    idempotent: bool = False

    @property
    def digest(self) -> str:
        """The digest that the operator approves."""
        return digest(msgspec.to_builtins(self))

    @property
    def model_description(self) -> str:
        """The description for models: without invisible and control characters, cut to the limit."""
        text = seen_text(self.description)
        if len(text) <= MAX_DESCRIPTION_CHARS:
            return text
        return text[: MAX_DESCRIPTION_CHARS - len(_CUT)] + _CUT


class UsableTools(Record):
    """The usable tools of a server's list, by name."""

    tools: Mapping[str, Definition]
    warnings: tuple[str, ...] = ()


def read_definitions(listed: Sequence[Mapping[str, Any]], before: UsableTools | None = None) -> UsableTools:
    """Check the tools of a list, given in the format of the protocol; unusable ones become warnings.

    Definitions that are unchanged since `before` are not checked again. The schemas of a hostile list take
    many seconds: call this in a thread.
    """
    found: dict[str, Definition] = {}
    warnings: list[str] = []
    for raw in listed:
        name = str(raw.get("name"))
        if len(found) == MAX_TOOLS:
            warnings.append(f"{len(listed)} tools are listed; the first {MAX_TOOLS} count")
            break
        wrong = _wrong_name(name, found)
        if wrong is None:
            definition = _definition(name, raw)
            known = None if before is None else before.tools.get(name)
            wrong = None if definition == known else _wrong_schema(definition)
        if wrong is not None:
            warnings.append(f"a tool is left out: {wrong}")
            continue
        found[name] = definition
    return UsableTools(found, tuple(warnings[:MAX_WARNINGS]))


def _definition(name: str, raw: Mapping[str, Any]) -> Definition:
    hints = raw.get("annotations") or {}
    return Definition(
        name=name,
        description=raw.get("description") or "",
        parameters=raw.get("inputSchema") or {},
        output_schema=raw.get("outputSchema"),
        read_only=hints.get("readOnlyHint") is True,
        idempotent=hints.get("idempotentHint") is True,
    )


def _wrong_name(name: str, known: Mapping[str, Definition]) -> str | None:
    if not _NAME.fullmatch(name):
        return (
            f"{name[:100]!r} is no name that it may have: a letter or '_', then letters, digits, "
            f"'_', '-', '.', at most {MAX_TOOL_NAME_CHARS} in all"
        )
    return f"the name {name!r} appears twice" if name in known else None


def _wrong_schema(definition: Definition) -> str | None:
    if definition.parameters.get("type", "object") != "object":
        return f"the parameters of {definition.name!r} must be an object"
    for what, schema in (("parameters", definition.parameters), ("output", definition.output_schema)):
        if schema is None:
            continue
        try:
            ToolSchema(schema)
        except SchemaError as error:
            return f"the schema of the {what} of {definition.name!r} cannot be used: {error}"
    return None
