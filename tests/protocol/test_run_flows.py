"""The table of runs: order and credit of results, ended runs, attempts that overlap."""

from __future__ import annotations

import msgspec
import pytest

from hostler_protocol import Side
from hostler_protocol.incoming import ResultArrived, RunBroken, Warned
from hostler_protocol.limits import MAX_INTEGER, MAX_MISSING_SEQUENCES, REMEMBERED_ENDED_RUNS
from hostler_protocol.results import AgentRunResult
from hostler_protocol.run_flows import RunFlow, RunFlows

MAX_BYTES = 100


def result(sequence: int, run_id: str = "r1") -> AgentRunResult:
    return AgentRunResult(run_id=run_id, type="log", sequence=sequence, data=msgspec.Raw(b"{}"))


@pytest.mark.parametrize(
    ("flow", "sequence"),
    [
        (RunFlow("r1", credit=1), 2),
        (RunFlow("r1", credit=1, last=1), 1),
        (RunFlow("r1", credit=0), 1),
        (RunFlow("r1", credit=1, live=False), 1),
        (RunFlow("r1", credit=1, last=MAX_INTEGER), MAX_INTEGER + 1),
    ],
)
def test_only_the_next_result_within_credit_takes_the_short_way(flow: RunFlow, sequence: int) -> None:
    before = (flow.last, flow.credit)
    assert not flow.take_next(sequence)
    assert (flow.last, flow.credit) == before


def test_the_next_result_counts() -> None:
    flow = RunFlow("r1", credit=2)
    assert flow.take_next(1)
    assert flow.take_next(2)
    assert (flow.last, flow.credit) == (2, 0)


def test_both_ways_count_the_same() -> None:
    short, long = RunFlow("r1", credit=3), RunFlow("r1", credit=3)
    for sequence in (1, 2, 3):
        assert short.take_next(sequence)
        assert long.take(result(sequence), 2, MAX_BYTES) == [ResultArrived(result(sequence), 2)]
        assert (short.last, short.credit) == (long.last, long.credit)


@pytest.mark.parametrize(
    ("sequences", "notes"),
    [
        ([1, 2, 3], [None, None, None]),
        ([1, 3, 2], [None, "gap", "late"]),
        ([2, 1, 1], ["gap", "late", "repeated"]),
        ([5, 5, 6], ["gap", "repeated", None]),
    ],
)
def test_a_sequence_is_next_late_or_repeated(sequences: list[int], notes: list[str | None]) -> None:
    flow = RunFlow("r1", credit=9)
    assert [flow.note(sequence) for sequence in sequences] == notes


def test_skipped_sequences_are_remembered_within_a_bound() -> None:
    flow = RunFlow("r1", credit=9)
    assert flow.note(10 * MAX_MISSING_SEQUENCES) == "gap"
    assert len(flow.missing) == MAX_MISSING_SEQUENCES
    assert flow.note(10 * MAX_MISSING_SEQUENCES - 1) == "late"
    assert flow.note(1) == "repeated"


@pytest.mark.parametrize(
    ("flow", "sequence", "size", "code"),
    [
        (RunFlow("r1", credit=0), 1, 2, "runner.protocol"),
        (RunFlow("r1", credit=1), 1, MAX_BYTES + 1, "payload_too_large"),
        (RunFlow("r1", credit=1), 0, 2, "runner.protocol"),
        (RunFlow("r1", credit=1), MAX_INTEGER + 1, 2, "runner.protocol"),
    ],
)
def test_a_result_outside_of_the_rules_breaks_its_run(
    flow: RunFlow, sequence: int, size: int, code: str
) -> None:
    broken = flow.take(result(sequence), size, MAX_BYTES)
    assert isinstance(broken, RunBroken)
    assert (broken.run_id, broken.code) == ("r1", code)


def test_warnings_come_before_their_result() -> None:
    events = RunFlow("r1", credit=1).take(result(3), 2, MAX_BYTES, "left out: usage.x")
    assert events == [
        Warned("a gap: sequence 3 after 0", "r1"),
        Warned("result 3: left out: usage.x", "r1"),
        ResultArrived(result(3), 2),
    ]


def test_a_repeated_result_uses_credit_and_is_dropped() -> None:
    flow = RunFlow("r1", credit=2)
    flow.take(result(1), 2, MAX_BYTES)
    assert flow.take(result(1), 2, MAX_BYTES) == [Warned("result 1 repeated: dropped", "r1")]
    assert flow.credit == 0


def test_a_run_that_breaks_the_rules_is_ended() -> None:
    flows = RunFlows(Side.HOST)
    flows.begin("r1", credit=0)
    (event,) = flows.take(result(1), 2, MAX_BYTES, None)
    assert isinstance(event, RunBroken)
    assert flows.active == {}
    assert flows.was_active("r1")


def test_a_later_attempt_is_live_once_its_start_is_answered() -> None:
    flows = RunFlows(Side.HOST)
    flows.begin("r1", credit=1)
    flows.end("r1")
    later = flows.begin("r1", credit=1)
    assert not flows.owns("r1")
    flows.started(later)
    assert flows.owns("r1")


def test_the_answer_to_an_earlier_start_changes_nothing() -> None:
    flows = RunFlows(Side.HOST)
    earlier = flows.begin("r1", credit=1)
    flows.end("r1")
    later = flows.begin("r1", credit=1)
    flows.started(earlier)
    flows.refused(earlier)
    assert flows.active == {"r1": later}
    assert not later.live
    flows.refused(later)
    assert flows.active == {}


def test_a_plugin_knows_of_no_earlier_attempt() -> None:
    flows = RunFlows(Side.PLUGIN)
    flows.begin("r1", credit=1)
    flows.end("r1")
    assert flows.begin("r1", credit=1).live


def test_credit_of_an_unknown_run_is_none() -> None:
    flows = RunFlows(Side.HOST)
    flows.add_credit("r1", 5)
    assert flows.credit("r1") == 0
    flows.begin("r1", credit=1)
    flows.add_credit("r1", 5)
    assert flows.credit("r1") == 6


def test_ended_runs_are_remembered_within_a_bound() -> None:
    flows = RunFlows(Side.HOST)
    flows.end("never begun")
    assert not flows.was_active("never begun")
    for number in range(REMEMBERED_ENDED_RUNS + 1):
        flows.begin(f"r{number}", credit=1)
        flows.end(f"r{number}")
    assert not flows.was_active("r0")
    assert flows.was_active("r1")
