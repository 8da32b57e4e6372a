"""Errors of host calls that end the run. Pure."""

from __future__ import annotations

from typing import Final

from hostler_sdk.errors import HostError
from hostler_sdk.types import ErrorCode

ENDS_THE_RUN: Final[frozenset[ErrorCode]] = frozenset({"deadline_exceeded", "cancelled"})


def ends_the_run(error: HostError) -> bool:
    """Whether an error ends the run; after any other one, the run goes on without the call's result."""
    return error.code in ENDS_THE_RUN
