"""What can become of a tool call, beside its result.

`ToolFailedError` is an outcome. After `OutcomeUnknownError` nobody here knows whether the tool did its work;
what follows from that depends on its effect class. Every other error of a call: the tool was not asked.
"""

from __future__ import annotations

from typing import ClassVar

from hostler_protocol.errors import (
    ConflictError,
    Fault,
    HostError,
    HostlerError,
    RemoteFaultError,
    to_fault,
)

TOOL_CODES = frozenset({"invalid_argument", "not_found", "conflict", "payload_too_large", "rate_limited"})
"""Codes that a tool may give its own error. What people and the host decide it can not claim."""


class ToolFailedError(RemoteFaultError):
    """The tool was called and raised: an outcome, recorded and never computed again."""

    @classmethod
    def of(cls, error: HostlerError) -> ToolFailedError:
        """The outcome that a tool's answer stands for."""
        fault = to_fault(error)
        if fault.code not in TOOL_CODES:
            fault = Fault(code="runtime_error", message=fault.message, retryable=fault.retryable)
        return cls(fault)


class OutcomeUnknownError(HostError):
    """The tool was asked, and its answer will not come: its process died, or the time ran out."""

    code: ClassVar[str] = "runtime_error"


class ToolChangedError(ConflictError):
    """The tool is no longer the one that was granted or approved. It was not called."""
