"""AgentRunner Protocol v1: types, and the sans-IO link between a host and its runners.

Start with `link.Link`. There is one module of types per subject; this package does no IO.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hostler_protocol.calls import CALLS, Call
    from hostler_protocol.errors import (
        CallerError,
        Fault,
        HostError,
        HostlerError,
        PluginError,
        from_fault,
        to_fault,
    )
    from hostler_protocol.events import AgentRunContext, EventEnvelope
    from hostler_protocol.ids import PluginIdentity, canonical_json, digest, new_id
    from hostler_protocol.limits import PROTOCOL_VERSION, Limits
    from hostler_protocol.link import Link, LinkError
    from hostler_protocol.manifest import AgentRunnerManifest
    from hostler_protocol.methods import METHODS, Method, Side
    from hostler_protocol.results import RESULT_TYPES, AgentRunResult, decode_data, result_of
    from hostler_protocol.states import State

__all__ = [
    "CALLS",
    "METHODS",
    "PROTOCOL_VERSION",
    "RESULT_TYPES",
    "AgentRunContext",
    "AgentRunResult",
    "AgentRunnerManifest",
    "Call",
    "CallerError",
    "EventEnvelope",
    "Fault",
    "HostError",
    "HostlerError",
    "Limits",
    "Link",
    "LinkError",
    "Method",
    "PluginError",
    "PluginIdentity",
    "Side",
    "State",
    "canonical_json",
    "decode_data",
    "digest",
    "from_fault",
    "new_id",
    "result_of",
    "to_fault",
]

_NAMES = {
    "calls": "CALLS Call",
    "errors": "CallerError Fault HostError HostlerError PluginError from_fault to_fault",
    "events": "AgentRunContext EventEnvelope",
    "ids": "PluginIdentity canonical_json digest new_id",
    "limits": "PROTOCOL_VERSION Limits",
    "link": "Link LinkError",
    "manifest": "AgentRunnerManifest",
    "methods": "METHODS Method Side",
    "results": "RESULT_TYPES AgentRunResult decode_data result_of",
    "states": "State",
}
"""The public names by their modules. A module is imported on the first use of one of its names, so that a
program that needs only the errors does not pay for importing the types."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
