"""What is frozen of a tool with a grant: enough to tell later whether it is still the same tool."""

from __future__ import annotations

import msgspec

from hostler_protocol.manifest import ToolEffect


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
