"""A scripted host: real protocol on the outside, answers told in advance on the inside.

`drive` and the conformance suite play the host with it; it needs no server, no database and no network.
"""

from __future__ import annotations

from hostler_sdk.scripted.scripts import ModelScripts, ToolScripts
from hostler_sdk.scripted.session import HostCall, HostSession, ObservedRun
from hostler_sdk.scripted.world import World

__all__ = ["HostCall", "HostSession", "ModelScripts", "ObservedRun", "ToolScripts", "World"]
