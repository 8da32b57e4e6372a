"""The outcomes of a tool call other than a result.

`ToolFailedError` is an outcome. `OutcomeUnknownError` means the host does not know whether the tool did its
work; the effect class decides what follows. After any other error the tool was not called.
"""

from __future__ import annotations

from typing import ClassVar

from hostler_protocol.errors import ConflictError, Fault, HostError, HostlerError, RemoteFaultError, to_fault

TOOL_CODES = frozenset({"invalid_argument", "not_found", "conflict", "payload_too_large", "rate_limited"})
"""Codes that a tool may use for its own errors; the others belong to people and to the host."""


class ToolFailedError(RemoteFaultError):
    """The tool was called and raised: an outcome, which is recorded and never computed again."""

    @classmethod
    def of(cls, error: HostlerError) -> ToolFailedError:
        """Return the outcome for a tool's error."""
        fault = to_fault(error)
        if fault.code not in TOOL_CODES:
            fault = Fault(code="runtime_error", message=fault.message, retryable=fault.retryable)
        return cls(fault)


class OutcomeUnknownError(HostError):
    """The tool was called and cannot answer: its process died, or the time ran out."""

    code: ClassVar[str] = "runtime_error"


class ToolChangedError(ConflictError):
    """The tool is no longer the one that was granted or approved. It was not called."""
