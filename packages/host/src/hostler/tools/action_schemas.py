"""Check the arguments of platform actions against their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hostler.domain.platform_actions import PLATFORM_ACTIONS
from hostler.tools.schema import ToolSchema


def check_action(name: str, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of a known action. Raises InvalidArgumentError or PayloadTooLargeError."""
    _schema(name).check_arguments(name, arguments)


@cache
def _schema(name: str) -> ToolSchema:
    return ToolSchema(PLATFORM_ACTIONS[name].schema)
