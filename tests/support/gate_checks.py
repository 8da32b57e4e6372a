"""A call through the gate, without a loop where the run has no budget."""

from __future__ import annotations

from hostler.calls.gate import Gate, GatedRun
from hostler.domain.recording import CallName
from hostler.journal.call_log import CallRecord
from hostler_protocol.calls import Call, CallParams


def check(gate: Gate, run: GatedRun, method: str, params: CallParams) -> Call:
    """Admit and charge one call, or raise the refusal."""
    charge = gate.admit(run, method, params).charge(CallRecord(CallName(method, "", 1), params))
    try:
        charge.send(None)
    except StopIteration as returned:
        call: Call = returned.value
        return call
    raise AssertionError("the gate waited for something")
