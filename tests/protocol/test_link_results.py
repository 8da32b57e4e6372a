"""Results of a run: order, credit and size."""

from __future__ import annotations

import pytest

from hostler_protocol import Limits, LinkError, State
from hostler_protocol.content import Usage
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.incoming import (
    Broken,
    ResultArrived,
    RunBroken,
    Warned,
)
from hostler_protocol.limits import (
    MAX_INTEGER,
    MAX_MISSING_SEQUENCES,
    MAX_REASON_CHARS,
)
from hostler_protocol.methods import RunCreditNote
from hostler_protocol.results import LogWritten, decode_data, result_of
from support.links import Pair, arrived, line, lines, result, running, warnings

SMALL = Limits(max_message_bytes=4_000, max_result_bytes=1_000)


# -- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "taken", "warned"),
    [
        ([1, 2, 3], [1, 2, 3], []),
        ([1, 1, 2, 2, 1], [1, 2], ["repeated", "repeated", "repeated"]),
        ([1, 4, 5], [1, 4, 5], ["a gap"]),
        ([1, 4, 2, 5, 3], [1, 4, 2, 5, 3], ["a gap", "late", "late"]),
        ([1, 4, 2, 2], [1, 4, 2], ["a gap", "late", "repeated"]),
        ([3, 2, 1], [3, 2, 1], ["a gap", "late", "late"]),
        ([MAX_INTEGER, MAX_INTEGER - 1, 1], [MAX_INTEGER, MAX_INTEGER - 1], ["a gap", "late", "repeated"]),
    ],
)
def test_results_keep_the_order_they_came_in(sent: list[int], taken: list[int], warned: list[str]) -> None:
    pair = running("r1")
    events = pair.to_host(b"".join(result("r1", sequence) for sequence in sent))
    assert arrived(events) == [("r1", sequence) for sequence in taken]
    found = warnings(events)
    assert len(found) == len(warned)
    for warning, words in zip(found, warned, strict=True):
        assert words in warning.reason
        assert (warning.run_id, warning.foreign) == ("r1", False)


def test_every_run_counts_for_itself() -> None:
    pair = running("r1", "r2")
    events = pair.to_host(result("r1", 1) + result("r2", 1) + result("r1", 2) + result("r2", 2))
    assert arrived(events) == [("r1", 1), ("r2", 1), ("r1", 2), ("r2", 2)]
    assert warnings(events) == []


@pytest.mark.parametrize("sequence", [0, -1, MAX_INTEGER + 1, 2**70])
def test_an_impossible_sequence_ends_that_run_alone(sequence: int) -> None:
    pair = running("r1", "r2")
    events = pair.to_host(result("r1", sequence) + result("r1", 1) + result("r2", 1))
    assert isinstance(events[0], RunBroken)
    assert (events[0].run_id, events[0].code) == ("r1", "runner.protocol")
    assert arrived(events) == [("r2", 1)]


def test_skipped_numbers_are_remembered_within_a_bound() -> None:
    pair = running("r1")
    events = pair.to_host(result("r1", 10 * MAX_MISSING_SEQUENCES))
    oldest_kept = 9 * MAX_MISSING_SEQUENCES
    events = pair.to_host(result("r1", oldest_kept) + result("r1", oldest_kept - 1))
    assert arrived(events) == [("r1", oldest_kept)]


def test_a_result_arrives_as_it_was_sent() -> None:
    pair = running("r1")
    sent = result_of("r1", 1, LogWritten(level="info", text="ä\u0000\n"), timestamp=1.5)
    (event,) = pair.to_host(pair.plugin.notify("run/result", sent))
    assert isinstance(event, ResultArrived)
    assert decode_data("log", event.result.data) == LogWritten(level="info", text="ä\u0000\n")
    assert event.result.timestamp == 1.5


def test_an_unknown_type_and_a_bad_payload_keep_their_run_and_number() -> None:
    pair = running("r1")
    events = pair.to_host(result("r1", 1, type="confetti", data=[1]) + result("r1", 2, data={"text": 5}))
    assert arrived(events) == [("r1", 1), ("r1", 2)]
    for event, words in zip(events, ["confetti", r"\$\.text|level"], strict=True):
        assert isinstance(event, ResultArrived)
        with pytest.raises(InvalidArgumentError, match=words):
            decode_data(event.result.type, event.result.data)


@pytest.mark.parametrize(
    "params",
    [
        {"run_id": "r1", "type": "log"},
        {"run_id": "r1", "type": "log", "sequence": "1"},
        {"run_id": "r1", "type": "log", "sequence": 1.5},
        {"run_id": "r1", "type": "log", "sequence": True},
        {"run_id": "r1", "type": None, "sequence": 1},
        {"run_id": "r1", "type": None, "sequence": 1, "usage": {"tokens": 1}},
    ],
)
def test_an_invalid_envelope_is_dropped_with_its_reason(params: dict[str, object]) -> None:
    pair = running("r1")
    (event,) = pair.to_host(line({"method": "run/result", "params": params}))
    assert isinstance(event, Warned)
    assert (event.run_id, event.foreign) == ("r1", False)
    assert arrived(pair.to_host(result("r1", 1))) == [("r1", 1)]


@pytest.mark.parametrize(
    ("usage", "kept", "named"),
    [
        ({"input_tokens": 3, "cost": 0.1}, Usage(input_tokens=3), ["usage.cost"]),
        ({"tokens": 1}, Usage(), ["usage.tokens"]),
        ({"input_tokens": -1, "output_tokens": 2}, Usage(output_tokens=2), ["usage.input_tokens"]),
        ({"total_tokens": 2**70}, Usage(), ["usage.total_tokens"]),
        ({"total_tokens": 2**53}, Usage(), ["usage.total_tokens"]),
        ({"total_tokens": "7"}, Usage(), ["usage.total_tokens"]),
        ({"total_tokens": 1.5}, Usage(), ["usage.total_tokens"]),
        ({"total_tokens": True, "x": [[]]}, Usage(), ["usage.total_tokens", "usage.x"]),
        ({"cached_tokens": {"a": 1}, "input_tokens": 5}, Usage(input_tokens=5), ["usage.cached_tokens"]),
        ([1], None, ["usage"]),
        ("many", None, ["usage"]),
        ({f"k{n}": n for n in range(10_000)}, Usage(), ["usage.k0", "9,9"]),
    ],
)
def test_what_is_wrong_with_usage_is_left_out_and_the_result_kept(
    usage: object, kept: Usage | None, named: list[str]
) -> None:
    pair = running("r1", limits=Limits(max_message_bytes=400_000, max_result_bytes=300_000))
    (warning, event) = pair.to_host(result("r1", 1, usage=usage))
    assert isinstance(warning, Warned)
    assert (warning.run_id, warning.foreign) == ("r1", False)
    assert all(name in warning.reason for name in named), warning.reason
    assert len(warning.reason) <= MAX_REASON_CHARS
    assert isinstance(event, ResultArrived)
    assert (event.result.sequence, event.result.usage) == (1, kept)


def test_usage_that_is_right_or_absent_needs_no_warning() -> None:
    pair = running("r1")
    for n, usage in enumerate([None, {}, {"input_tokens": MAX_INTEGER}, {"cached_tokens": None}], start=1):
        (event,) = pair.to_host(result("r1", n, usage=usage))
        assert isinstance(event, ResultArrived)


def test_a_result_that_is_dropped_is_not_warned_of_twice_for_its_usage() -> None:
    pair = running("r1")
    pair.to_host(result("r1", 1))
    (repeated,) = pair.to_host(result("r1", 1, usage={"tokens": 1}))
    assert isinstance(repeated, Warned)
    assert "repeated" in repeated.reason
    (foreign,) = pair.to_host(result("r9", 1, usage={"tokens": 1}))
    assert isinstance(foreign, Warned)
    assert foreign.foreign


@pytest.mark.parametrize("params", [[], "r1", None, 5, [{"run_id": "r1"}]])
def test_parameters_that_are_no_object_are_dropped(params: object) -> None:
    pair = running("r1")
    (event,) = pair.to_host(line({"method": "run/result", "params": params}))
    assert isinstance(event, Warned)
    assert event.run_id is None


# -- credit ---------------------------------------------------------------------------------------


def test_a_run_that_sends_beyond_its_credit_is_broken() -> None:
    pair = running("r1", "r2", credit=2)
    events = pair.to_host(b"".join(result("r1", n) for n in range(1, 5)) + result("r2", 1))
    assert arrived(events) == [("r1", 1), ("r1", 2), ("r2", 1)]
    broken = [event for event in events if isinstance(event, RunBroken)]
    assert [(event.run_id, event.code) for event in broken] == [("r1", "runner.protocol")]


def test_credit_is_the_same_on_both_ends() -> None:
    pair = running("r1", credit=1)
    for granted in (1, 5):
        (noted,) = pair.to_plugin(pair.host.notify("run/credit", RunCreditNote(run_id="r1", results=granted)))
        assert not isinstance(noted, Warned)
    assert pair.host.credit("r1") == pair.plugin.credit("r1") == 7
    for sequence in range(1, 8):
        pair.plugin.spend_credit("r1")
        assert arrived(pair.to_host(result("r1", sequence))) == [("r1", sequence)]
    assert pair.host.credit("r1") == pair.plugin.credit("r1") == 0
    assert isinstance(pair.to_host(result("r1", 8))[0], RunBroken)


@pytest.mark.parametrize("results", [0, -5, MAX_INTEGER + 1, 2**70])
def test_a_grant_is_a_positive_number(results: int) -> None:
    pair = running("r1", credit=1)
    with pytest.raises(LinkError, match="at least 1"):
        pair.host.notify("run/credit", RunCreditNote(run_id="r1", results=results))
    note = {"method": "run/credit", "params": {"run_id": "r1", "results": results}}
    (event,) = pair.to_plugin(line(note))
    assert isinstance(event, Warned)
    assert pair.host.credit("r1") == pair.plugin.credit("r1") == 1


@pytest.mark.parametrize("credit", [-1, 2**70, 1.5])
def test_a_run_does_not_start_with_impossible_credit(credit: float) -> None:
    pair = Pair.ready()
    params = {"runner_id": "x", "runner_name": "x", "context": {"run_id": "r1"}, "credit": credit}
    assert pair.to_plugin(line({"id": 5, "method": "run/start", "params": params})) == []
    (answer,) = lines(pair.plugin.data_to_send())
    assert answer["error"]["code"] == -32602
    assert pair.plugin.runs == frozenset()


# -- size -----------------------------------------------------------------------------------------


def test_a_result_over_its_size_ends_that_run_alone() -> None:
    pair = running("r1", "r2", limits=SMALL)
    data = {"level": "info", "text": "x" * 1_000}
    events = pair.to_host(result("r1", 1, data=data) + result("r2", 1))
    assert isinstance(events[0], RunBroken)
    assert (events[0].run_id, events[0].code) == ("r1", "payload_too_large")
    assert arrived(events) == [("r2", 1)]


MEMBERS = [["run_id", "type", "sequence", "data"], ["data", "type", "sequence", "run_id"]]
ENVELOPES = [["jsonrpc", "method", "params"], ["params", "method", "jsonrpc"]]


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize(
    "data",
    [
        {"level": "info", "text": "x" * 100_000},
        {"text": '"run_id":"r2"}' * 5_000},
        {"text": "\\" * 5_001, "run_id": "r2", "deep": [[{"run_id": "r2"}]] * 500},
    ],
)
def test_a_result_too_large_to_parse_still_finds_its_run(
    data: object, members: list[str], envelope: list[str]
) -> None:
    pair = running("r1", "r2", limits=SMALL)
    values = {"run_id": "r1", "type": "log", "sequence": 1, "data": data}
    params = {name: values[name] for name in members}
    whole = {"method": "run/result", "params": params, "jsonrpc": "2.0"}
    message = line({name: whole[name] for name in envelope})
    events = pair.to_host(message + result("r2", 1))
    assert isinstance(events[0], RunBroken)
    assert (events[0].run_id, events[0].code) == ("r1", "payload_too_large")
    assert arrived(events) == [("r2", 1)]


def test_the_sdk_sends_what_it_was_given_and_the_host_decides() -> None:
    pair = running("r1", limits=SMALL)
    sent = result_of("r1", 1, LogWritten(level="info", text="x" * 5_000))
    (event,) = pair.to_host(pair.plugin.notify("run/result", sent))
    assert isinstance(event, RunBroken)
    assert event.code == "payload_too_large"


def test_a_large_result_of_a_foreign_run_touches_nobody() -> None:
    pair = running("r1", limits=SMALL)
    (event,) = pair.to_host(result("r9", 1, data={"text": "x" * 5_000}))
    assert isinstance(event, Warned)
    assert event.foreign
    assert pair.host.runs == {"r1"}


@pytest.mark.parametrize(
    "noise",
    [
        b"x" * 5_000,
        b"[" * 5_000,
        b'"' * 5_001,
        b'{"jsonrpc":"2.0","method":"run/end","params":{"run_id":"r1","x":"' + b"x" * 5_000 + b'"}}',
        b'{"jsonrpc":"2.0","method":"run/result","params":["' + b"x" * 5_000 + b'"]}',
        b'{"jsonrpc":"2.0","id":77,"result":"' + b"x" * 5_000 + b'"}',
        b'{"jsonrpc":"2.0","method":"' + b"x" * 5_000 + b'","id":1}',
    ],
)
def test_a_large_message_of_unknown_origin_ends_the_connection(noise: bytes) -> None:
    pair = running("r1", limits=SMALL)
    (event,) = pair.to_host(noise + b"\n")
    assert isinstance(event, Broken)
    assert "4,000" in event.reason
    assert pair.host.state is State.CLOSED
