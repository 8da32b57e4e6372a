"""Pins of tools: those of a grant, and those that the operator has approved of a server. Pure.

The first list that a server ever sends is approved by its configuration. Later changes and additions wait for
the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from hostler.domain.record import Record
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolEffect

PinState = Literal["approved", "changed", "new"]


class ToolPin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's identity when the grant was built. Of two equal pins only what people read may differ.

    `schema_digest` covers the JSON Schema of the parameters; for tools of servers, which the operator does
    not control, also the description.
    """

    tool_id: str
    """Stable, like `plugin:acme/shop#book`."""
    owner: str
    """The owner of the tool: a plugin's key, `mcp:...`."""
    schema_digest: str
    effect: ToolEffect = "default"
    client: bool = False
    """Whether the client executes it."""


class ApprovedTool(ToolPin, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as people approved it. `definition`: as of `PresentTool`; empty if it was not recorded."""

    definition: str = ""


def approved_tool(pin: ToolPin, definition: str | None) -> ApprovedTool:
    """Return a tool as an approval refers to it."""
    return ApprovedTool(**msgspec.structs.asdict(pin), definition=definition or "")


class PresentTool(Record, dict=True):
    """A tool as it is now, and as people are shown it who are asked about a call. JSON Schemas.

    `version`: of the plugin that offers it.
    """

    pin: ToolPin
    description: str | None = None
    args_schema: dict[str, Any] | None = None
    result_schema: dict[str, Any] | None = None
    version: str = ""

    @cached_property
    def definition(self) -> str:
        """The digest of everything that is approved with a call of the tool: an approval holds for no
        other definition.
        """
        pin = msgspec.to_builtins(self.pin)
        return digest([pin, self.version, self.description, self.args_schema, self.result_schema])


class StoredPin(Record):
    """A tool as approved, and as last seen. `digest` None: never approved."""

    tool: str
    digest: str | None
    definition: dict[str, Any] | None
    seen_digest: str
    seen_definition: dict[str, Any]

    @property
    def state(self) -> PinState:
        """Whether the tool last seen is the approved one."""
        if self.digest is None:
            return "new"
        return "approved" if self.digest == self.seen_digest else "changed"


class ListedTool(Record):
    """A tool in a new list of its server."""

    tool: str
    digest: str
    definition: dict[str, Any]


class PinChange(Record):
    """A pin to store, and its action for the audit log."""

    pin: StoredPin
    action: Literal["tool.first_seen", "tool.added", "tool.changed", "tool.changed_back"]


def pin_changes(known: Mapping[str, StoredPin], seen: Mapping[str, ListedTool]) -> list[PinChange]:
    """Return the changes that a new list makes. A tool that is not listed any more keeps its pin: it may
    return with another definition.
    """
    first = not known
    found: list[PinChange] = []
    for tool, sight in seen.items():
        pin = known.get(tool)
        if pin is None:
            fresh = StoredPin(
                tool,
                sight.digest if first else None,
                sight.definition if first else None,
                sight.digest,
                sight.definition,
            )
            found.append(PinChange(fresh, "tool.first_seen" if first else "tool.added"))
        elif pin.seen_digest != sight.digest:
            now = StoredPin(tool, pin.digest, pin.definition, sight.digest, sight.definition)
            found.append(PinChange(now, "tool.changed_back" if now.state == "approved" else "tool.changed"))
    return found
