"""Runs of services that pause: what they ask, and the attempt that goes on with the decisions."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler_sdk.runner import Runner
from hostler_sdk.testing import Driven, ScriptedHost

RUN = "run-1"


def pending(driven: Driven) -> list[Any]:
    """The calls for which the run waits."""
    assert driven.status == "paused", (driven.status, driven.code, driven.error)
    return list(driven.results[-1].data.pending)  # type: ignore[union-attr]


def decision(call_id: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"call_id": call_id, "decision": outcome, **more}


def answered(call_id: str, text: str) -> dict[str, Any]:
    return decision(call_id, "answered", values={"answer": text})


async def go_on(
    runner: type[Runner],
    config: dict[str, Any],
    paused: Driven,
    *decisions: dict[str, Any],
    host: ScriptedHost | None = None,
    attempt: int = 2,
    context: dict[str, Any] | None = None,
) -> Driven:
    """Run the attempt after a pause. The state has gone through JSON, as a host keeps it."""
    state = msgspec.json.decode(msgspec.json.encode(paused.results[-1].data.state))  # type: ignore[union-attr]
    continuation = {"state": state, "decisions": [*decisions]}
    given = {"run_id": RUN, "attempt": attempt, "continuation": continuation, **(context or {})}
    return await (host or ScriptedHost()).drive(runner, "Hello", config=config, context=given)
