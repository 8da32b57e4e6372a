"""Decisions of people and clients in a scripted host, given in advance and used in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hostler_protocol.calls import InteractionParams
from hostler_protocol.pausing import Decision, expiry_misfit
from hostler_sdk.errors import Cancelled, Denied, Expired, HostError, InvalidArgument
from hostler_sdk.tools import Tool

Told = Mapping[str, Any] | Decision | Exception
"""A scripted decision, or the error that the call raises."""

_ENDINGS: dict[str, type[HostError]] = {"denied": Denied, "expired": Expired, "cancelled": Cancelled}


class People:
    """Decides questions (`ctx.ask`), approvals of tool calls, and the results of client tools."""

    def __init__(self) -> None:
        self._told: list[Told] = []

    def add(self, decisions: Iterable[Told]) -> None:
        """Add decisions after those that are left."""
        self._told.extend(decisions)

    def decide(self, call_id: str, otherwise: str) -> Decision:
        """Take the next decision; without one, the outcome is `otherwise`. Raises a scripted error."""
        told: Any = self._told.pop(0) if self._told else {}
        if isinstance(told, Exception):
            raise told
        if isinstance(told, Decision):
            return told
        return msgspec.convert({"call_id": call_id, "decision": otherwise, "values": {}} | told, Decision)

    def answer(self, params: InteractionParams, call_id: str) -> Decision:
        """Decide a question. Raises InvalidArgument if a host would not accept the question."""
        if (misfit := expiry_misfit(params.expires_in)) is not None:
            raise InvalidArgument(misfit)
        return self.decide(call_id, "approved" if params.kind == "confirmation" else "answered")

    def settle(self, tool: Tool, parameters: dict[str, Any], call_id: str) -> Decision:
        """Decide a tool call. The decision holds the effective arguments.

        Without a scripted decision an approval is approved, and the call of a client tool expires. Raises
        Denied, Expired or Cancelled if the call is not to be made.
        """
        decision = self.decide(call_id, "expired" if tool.client else "approved")
        ending = _ENDINGS.get(decision.decision)
        if ending is not None:
            raise ending(decision.comment or f"the call of {tool.name} was {decision.decision}")
        effective = parameters if decision.arguments is None else decision.arguments
        return msgspec.structs.replace(decision, arguments=effective)
