"""Which tools of a server the operator has approved, and what a new list of them means. Pure.

The first list that a server ever gives is approved by its configuration. Whatever it changes or adds later
waits for the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hostler_protocol.manifest import ToolEffect

PinState = Literal["approved", "changed", "new"]


class ToolPin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as it stood when the grant was built. Two equal pins are the same tool.

    `schema_digest` is of the JSON Schema of its parameters (for tools of a server that the operator does not
    hold in the hand, of its description too).
    """

    tool_id: str
    """Stable, like `plugin:acme/shop#book`."""
    owner: str
    """Who offers it: a plugin's key, `mcp:...`."""
    schema_digest: str
    effect: ToolEffect = "default"
    client: bool = False
    """Run by the client."""


@dataclass(frozen=True, slots=True)
class StoredPin:
    """A tool as it was approved, and as it was last seen. `digest` None: it never was approved."""

    tool: str
    digest: str | None
    definition: dict[str, Any] | None
    seen_digest: str
    seen_definition: dict[str, Any]

    @property
    def state(self) -> PinState:
        """How they go together."""
        if self.digest is None:
            return "new"
        return "approved" if self.digest == self.seen_digest else "changed"


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool in a new list."""

    tool: str
    digest: str
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PinChange:
    """What is to be stored of one tool, and the audit fact that goes with it."""

    pin: StoredPin
    action: Literal["tool.first_seen", "tool.added", "tool.changed", "tool.changed_back"]


def pin_changes(known: Mapping[str, StoredPin], seen: Mapping[str, ListedTool]) -> list[PinChange]:
    """What a list changes. A tool that is gone from it keeps its pin: it may come back as another."""
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
