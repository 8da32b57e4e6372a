"""A scripted host: it speaks the real protocol, and answers calls as scripts say.

`drive` and the conformance suite use it. It needs no server, no database and no network.
"""

from __future__ import annotations

from hostler_sdk.scripted.scripts import ModelScripts, ToolScripts
from hostler_sdk.scripted.session import HostCall, HostSession, ObservedRun
from hostler_sdk.scripted.world import World

__all__ = ["HostCall", "HostSession", "ModelScripts", "ObservedRun", "ToolScripts", "World"]
