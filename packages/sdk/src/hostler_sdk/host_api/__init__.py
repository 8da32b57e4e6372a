"""The Host API as runners use it, in groups: `ctx.models`, `ctx.tools`, `ctx.states` and so on.

Each method makes one call of the protocol and returns its typed reply, unless its docstring names something
simpler. A refused call raises a `HostError`.
"""

from __future__ import annotations

from hostler_sdk.host_api.actions import Actions
from hostler_sdk.host_api.artifacts import Artifacts
from hostler_sdk.host_api.facts import Events, History, Steering
from hostler_sdk.host_api.port import HostCalls, StreamingAnswer
from hostler_sdk.host_api.resources import Knowledge, Models, ModelStream, OpenDoor, Tools
from hostler_sdk.host_api.runs import Runs
from hostler_sdk.host_api.schedules import Schedules
from hostler_sdk.host_api.states import States, Storage

__all__ = [
    "Actions",
    "Artifacts",
    "Events",
    "History",
    "HostCalls",
    "Knowledge",
    "ModelStream",
    "Models",
    "OpenDoor",
    "Runs",
    "Schedules",
    "States",
    "Steering",
    "Storage",
    "StreamingAnswer",
    "Tools",
]
