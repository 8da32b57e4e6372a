"""Runs of a connection: whose messages are taken, attempts of one run, parked runs."""

from __future__ import annotations

import pytest

from hostler_protocol import Link, LinkError, Side, State
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.incoming import (
    Called,
    Refused,
    Replied,
    ResultArrived,
    RunEnded,
    RunLeft,
    Warned,
)
from hostler_protocol.limits import REMEMBERED_ENDED_RUNS
from hostler_protocol.methods import NoParams, RunEndNote, RunParkNote
from hostler_protocol.results import AgentRunResult
from support.links import Pair, arrived, line, lines, result, running, start, warnings

# -- whose they are -------------------------------------------------------------------------------


def test_messages_for_foreign_runs_are_dropped_and_counted() -> None:
    pair = running("r1")
    pair.start("r2")
    stranger = Pair.ready()
    events = stranger.to_host(
        result("r1", 1)
        + line({"method": "run/end", "params": {"run_id": "r2"}})
        + line({"method": "run/result", "params": {"run_id": "r1"}})
    )
    assert [(e.run_id, e.foreign) for e in warnings(events)] == [("r1", True), ("r2", True), ("r1", True)]
    assert len(events) == stranger.host.foreign_messages == 3
    assert pair.host.runs == {"r1", "r2"}


def test_a_call_for_a_foreign_run_is_refused_and_counted() -> None:
    pair = running("r1")
    (event,) = pair.to_host(line({"id": "c9", "method": "host/host.info", "params": {"run_id": "r9"}}))
    assert isinstance(event, Warned)
    assert event.foreign
    assert pair.refusal()["data"]["code"] == "not_found"
    assert pair.host.foreign_messages == 1


def test_an_ended_run_is_ignored_and_its_calls_are_refused() -> None:
    pair = running("r1")
    assert pair.to_host(pair.plugin.notify("run/end", RunEndNote(run_id="r1"))) == [RunEnded("r1")]
    assert pair.host.runs == pair.plugin.runs == frozenset()
    late = result("r1", 1) + line({"method": "run/end", "params": {"run_id": "r1"}})
    late += line({"id": 9, "method": "host/host.info", "params": {"run_id": "r1"}})
    assert pair.to_host(late) == [RunLeft("r1")]
    assert pair.refusal()["data"]["code"] == "cancelled"
    assert pair.host.foreign_messages == 0


def test_ended_runs_are_remembered_within_a_bound() -> None:
    pair = Pair.ready()
    for number in range(REMEMBERED_ENDED_RUNS + 1):
        pair.start(f"r{number}")
        pair.host.end_run(f"r{number}")
    assert pair.to_host(result("r1", 1)) == []
    (event,) = pair.to_host(result("r0", 1))
    assert isinstance(event, Warned)
    assert event.foreign


# -- attempts -------------------------------------------------------------------------------------


def restarted(pair: Pair) -> tuple[Link, bytes]:
    """Start r1 again on the same connection; gives the plugin's answer, not yet delivered."""
    id_ = pair.host_asks("run/start", start("r1"))
    return pair.plugin, pair.plugin.reply(id_, NoParams())


def test_a_later_attempt_may_run_on_the_same_connection() -> None:
    pair = running("r1")
    pair.to_host(result("r1", 1) + result("r1", 2))
    pair.to_plugin(pair.host.notify("run/park", RunParkNote(run_id="r1")))
    assert pair.host.runs == pair.plugin.runs == frozenset()
    _, answer = restarted(pair)
    late = result("r1", 3) + line({"id": "c8", "method": "host/host.info", "params": {"run_id": "r1"}})
    events = pair.to_host(late + answer + result("r1", 1))
    assert [type(event) for event in events] == [Replied, ResultArrived]
    assert arrived(events) == [("r1", 1)]
    assert pair.refusal()["data"]["code"] == "cancelled"


def test_results_sent_before_the_answer_count_on_a_first_attempt() -> None:
    pair = Pair.ready()
    pair.host_asks("run/start", start("r1"))
    assert arrived(pair.to_host(result("r1", 1))) == [("r1", 1)]


def test_a_run_that_was_fenced_before_its_start_was_answered_stays_fenced() -> None:
    pair = running("r1")
    pair.host.end_run("r1")
    pair.plugin.end_run("r1")
    _, answer = restarted(pair)
    pair.host.end_run("r1")
    events = pair.to_host(answer + result("r1", 1))
    assert [type(event) for event in events] == [Replied]


def test_the_same_run_cannot_be_active_twice() -> None:
    pair = running("r1")
    with pytest.raises(LinkError, match="r1 is already active"):
        pair.host.request("run/start", start("r1"))
    params = {"runner_id": "x", "runner_name": "x", "context": {"run_id": "r1"}}
    (event,) = pair.to_plugin(line({"id": 50, "method": "run/start", "params": params}))
    assert isinstance(event, Warned)
    (answer,) = lines(pair.plugin.data_to_send())
    assert answer["error"]["data"]["code"] == "conflict"


def test_a_run_that_could_not_be_started_is_no_run_of_either_end() -> None:
    pair = Pair.ready()
    id_ = pair.host_asks("run/start", start("r1"))
    (event,) = pair.to_host(pair.plugin.refuse(id_, InvalidArgumentError("no such runner")))
    assert isinstance(event, Refused)
    assert pair.host.runs == pair.plugin.runs == frozenset()
    pair.start("r1")


def test_parking_forgets_the_calls_of_that_run_on_both_ends() -> None:
    pair = running("r1", "r2")
    parked = pair.plugin_asks("host/prompt.get", {"run_id": "r1"})
    other = pair.plugin_asks("host/prompt.get", {"run_id": "r2"})
    pair.to_plugin(pair.host.notify("run/park", RunParkNote(run_id="r1")))
    assert pair.host.reply(parked, {"prompt": []}) == b""
    (late,) = pair.to_plugin(line({"id": parked, "result": {"prompt": []}}))
    assert isinstance(late, Warned)
    (answer,) = pair.to_plugin(pair.host.reply(other, {"prompt": []}))
    assert isinstance(answer, Replied)
    again = line({"id": parked, "method": "host/prompt.get", "params": {"run_id": "r2"}})
    assert isinstance(pair.to_host(again)[0], Called)


def test_a_link_that_was_told_of_runs_as_plain_json_knows_them() -> None:
    host = Link(Side.HOST)
    _, data = host.request(
        "initialize", {"protocol": {"min": 1, "max": 1}, "host": {"name": "h", "version": ""}}
    )
    plugin = Link(Side.PLUGIN)
    list(plugin.receive(data))
    reply = {"protocol": 1, "plugin": {"author": "a", "name": "b"}}
    list(host.receive(plugin.reply(1, reply)))
    assert host.state is plugin.state is State.READY
    host.request(
        "run/start", {"runner_id": "x", "runner_name": "x", "context": {"run_id": "r1"}, "credit": 3}
    )
    assert host.runs == {"r1"}
    assert host.credit("r1") == 3
    params = {"run_id": "r1", "type": "log", "sequence": 1}
    (event,) = host.receive(plugin.notify("run/result", params))
    assert isinstance(event, ResultArrived)
    assert isinstance(event.result, AgentRunResult)
