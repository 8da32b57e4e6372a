"""Both halves of the gate in one call, without a loop where the run has no budget."""

from __future__ import annotations

from typing import Any

from hostler.calls.gate import Gate, GatedRun
from hostler_protocol.calls import Call, CallParams


def check(
    gate: Gate, run: GatedRun | None, connection: object, attempt: int, method: str, params: CallParams
) -> Call:
    """Let one call through, or raise why not: `admit`, then `charge`."""
    call = gate.admit(run, connection, attempt, method, params)
    if run is not None:
        _at_once(gate.charge(run, call))
    return call


def _at_once(charge: Any) -> None:
    try:
        charge.send(None)
    except StopIteration:
        return
    raise AssertionError("the gate waited for something")
