"""Faults at the awaits of one short life, sampled; `python -m simulation sweep` has them all."""

from __future__ import annotations

from simulation import sweep
from simulation.lives import Workers
from simulation.workloads.strikes import KINDS

EVERY = {
    "kill host at await": 53,
    "power cut at await": 131,
    "freeze host at await": 83,
    "kill plugin at await": 11,
}
BEFORE_THE_TOOL = range(147, 166, 2)
"""Around the confirmation that a run is still here, which is the last thing before its tool is called."""


def test_a_fault_at_any_await_loses_and_repeats_nothing(workers: Workers) -> None:
    lives = [ended for kind in KINDS for ended in sweep.sweep(workers, kind, EVERY[kind])]
    assert len(lives) > 12
    assert {sweep.place_of(ended): ended.findings for ended in lives if ended.findings} == {}


def test_a_host_that_was_frozen_before_it_calls_a_tool_does_not_call_it(workers: Workers) -> None:
    plans = (sweep.plan("freeze host at await", count) for count in BEFORE_THE_TOOL)
    lives = list(workers.live_all(plans))
    assert {sweep.place_of(ended): ended.findings for ended in lives if ended.findings} == {}
