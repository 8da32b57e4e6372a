"""Who decides in a scripted host: the answers of people and clients, each given once, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hostler_protocol.calls import InteractionParams
from hostler_protocol.pausing import Decision, expiry_misfit
from hostler_sdk.errors import Cancelled, Denied, Expired, HostError, InvalidArgument
from hostler_sdk.tools import Tool

Told = Mapping[str, Any] | Decision | Exception
"""A decision, or the error that a call ends with."""

_ENDINGS: dict[str, type[HostError]] = {"denied": Denied, "expired": Expired, "cancelled": Cancelled}


class People:
    """Answers to questions (`ctx.ask`), and to calls of tools that need approval or that the client runs."""

    def __init__(self) -> None:
        self._told: list[Told] = []

    def add(self, decisions: Iterable[Told]) -> None:
        """Say what is decided next."""
        self._told.extend(decisions)

    def decide(self, call_id: str, otherwise: str) -> Decision:
        """The next decision; `otherwise` where none was told. Raises an error that was told."""
        told: Any = self._told.pop(0) if self._told else {}
        if isinstance(told, Exception):
            raise told
        if isinstance(told, Decision):
            return told
        return msgspec.convert({"call_id": call_id, "decision": otherwise, "values": {}} | told, Decision)

    def answer(self, params: InteractionParams, call_id: str) -> Decision:
        """What is decided of a question. InvalidArgument where a host would not ask it."""
        if (misfit := expiry_misfit(params.expires_in)) is not None:
            raise InvalidArgument(misfit)
        return self.decide(call_id, "approved" if params.kind == "confirmation" else "answered")

    def settle(self, tool: Tool, parameters: dict[str, Any], call_id: str) -> Decision:
        """What is decided of a tool's call, its effective arguments filled in.

        Approved where nothing was told, and nobody answers for the client. Denied, Expired or Cancelled
        where it is not made.
        """
        decision = self.decide(call_id, "expired" if tool.client else "approved")
        ending = _ENDINGS.get(decision.decision)
        if ending is not None:
            raise ending(decision.comment or f"the call of {tool.name} was {decision.decision}")
        effective = parameters if decision.arguments is None else decision.arguments
        return msgspec.structs.replace(decision, arguments=effective)
