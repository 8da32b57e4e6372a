"""Who may say what in which state, seen from both ends of the wire."""

from __future__ import annotations

import pytest

from hostler_protocol import METHODS, Limits, Link, LinkError, Side, State
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.incoming import Broken, Called, Incoming, Refused, Replied, Warned
from hostler_protocol.link import LinkClosedError
from hostler_protocol.methods import NoParams
from hostler_protocol.states import MAY_SEND
from support.links import INITIALIZED, Pair, initialize, line, lines, start
from support.samples import sample


def pair_in(state: State) -> Pair:
    """Bring both ends into a state by the conversation that leads there."""
    if state in {State.CONNECTED, State.INITIALIZING}:
        pair = Pair()
        if state is State.INITIALIZING:
            pair.host_asks("initialize", initialize())
        return pair
    pair = Pair.ready()
    pair.start("r1")
    if state is State.DRAINING:
        pair.host_asks("shutdown", NoParams())
    if state is State.CLOSED:
        list(pair.host.close("the end"))
        list(pair.plugin.close("the end"))
    return pair


def ends(pair: Pair, sender: Side) -> tuple[Link, Link]:
    return (pair.host, pair.plugin) if sender is Side.HOST else (pair.plugin, pair.host)


def states(pair: Pair) -> set[State]:
    return {pair.host.state, pair.plugin.state}


ROWS = [(side, state, name) for side, state in MAY_SEND for name in METHODS]


def test_the_table_names_every_method_of_the_protocol_somewhere() -> None:
    said = {(side, name) for (side, _), names in MAY_SEND.items() for name in names}
    assert said == {(method.sender, name) for name, method in METHODS.items()}


@pytest.mark.parametrize("state", State)
def test_both_ends_reach_the_same_state(state: State) -> None:
    pair = pair_in(state)
    assert (pair.host.state, pair.plugin.state) == (state, state)


@pytest.mark.parametrize(("side", "state", "name"), ROWS)
def test_a_link_sends_only_what_the_table_allows(side: Side, state: State, name: str) -> None:
    sender, receiver = ends(pair_in(state), side)
    method = METHODS[name]
    params = {"run/start": start("r2"), "initialize": initialize()}.get(name)
    params = params or sample(method.params, run_id="r1")
    if name not in MAY_SEND[side, state]:
        with pytest.raises(LinkClosedError if state is State.CLOSED else LinkError, match=name):
            sender.request(name, params) if method.is_request else sender.notify(name, params)
        assert sender.state is state
        return
    data = sender.request(name, params)[1] if method.is_request else sender.notify(name, params)
    events = list(receiver.receive(data))
    assert not any(isinstance(event, Warned | Broken) for event in events)
    assert receiver.data_to_send() == b""
    assert sender.state is receiver.state


@pytest.mark.parametrize(("side", "state", "name"), [row for row in ROWS if row[2] not in MAY_SEND[row[:2]]])
def test_a_link_hears_only_what_the_table_allows(side: Side, state: State, name: str) -> None:
    """The sender here is a foreign program that keeps no rules."""
    _, receiver = ends(pair_in(state), side)
    id_ = {"id": "x1"} if METHODS[name].is_request else {}
    events: list[Incoming] = list(receiver.receive(line({"method": name, "params": {"run_id": "r1"}, **id_})))
    answers = lines(receiver.data_to_send())
    assert receiver.state is state
    assert not any(isinstance(event, Called) for event in events)
    if state is State.CLOSED:
        assert (events, answers) == ([], [])
    elif id_:
        (answer,) = answers
        expected = -32601 if METHODS[name].sender is receiver.side else -32600
        assert (answer["id"], answer["error"]["code"]) == ("x1", expected)
        assert answer["error"]["data"]["code"] == "invalid_argument"
    else:
        (event,) = events
        assert isinstance(event, Warned)
        assert answers == []


def test_a_plugin_may_not_say_what_only_the_host_says() -> None:
    pair = Pair.ready()
    for name, method in METHODS.items():
        if method.sender is Side.HOST:
            pair.to_host(line({"id": 1, "method": name, "params": {}}))
            assert pair.refusal()["code"] == -32601


@pytest.mark.parametrize(
    ("name", "is_request"), [("run/result", True), ("run/end", True), ("nonsense", True)]
)
def test_an_unknown_request_is_answered(name: str, is_request: bool) -> None:
    pair = Pair.ready()
    assert pair.to_host(line({"id": "7", "method": name, "params": {}})) == []
    error = pair.refusal()
    assert error["code"] == -32601
    assert name in error["message"]
    assert pair.host.state is State.READY


def test_an_unknown_notification_is_a_warning() -> None:
    pair = Pair.ready()
    (event,) = pair.to_host(line({"method": "run/telemetry", "params": {}}))
    assert isinstance(event, Warned)
    assert "run/telemetry" in event.reason
    assert pair.host.data_to_send() == b""


# -- initialize -----------------------------------------------------------------------------------


def test_the_plugin_takes_over_the_limits_of_the_host() -> None:
    limits = Limits(max_message_bytes=5_000, max_result_bytes=1_000)
    pair = Pair()
    pair.host_asks("initialize", initialize(limits))
    assert pair.plugin.limits == limits
    pair.to_host(pair.plugin.reply(1, INITIALIZED))
    assert isinstance(
        pair.to_plugin(line({"id": 2, "method": "ping", "params": {"x": "y" * 4_900}}))[0], Called
    )
    (event,) = pair.to_plugin(line({"id": 3, "method": "ping", "params": {"x": "y" * 5_000}}))
    assert isinstance(event, Warned)
    assert lines(pair.plugin.data_to_send())[0]["error"]["data"]["code"] == "payload_too_large"


def test_a_plugin_refuses_versions_it_does_not_speak_and_may_be_asked_again() -> None:
    pair = Pair()
    id_, data = pair.host.request("initialize", initialize(versions=(2, 3)))
    (warned,) = pair.to_plugin(data)
    assert isinstance(warned, Warned)
    (event,) = pair.to_host(pair.plugin.data_to_send())
    assert isinstance(event, Refused)
    assert isinstance(event.error, InvalidArgumentError)
    assert "2 to 3" in event.error.message
    assert (event.id, event.method) == (id_, "initialize")
    assert states(pair) == {State.CONNECTED}
    again = pair.host_asks("initialize", initialize(versions=(1, 3)))
    (replied,) = pair.to_host(pair.plugin.reply(again, INITIALIZED))
    assert isinstance(replied, Replied)
    assert states(pair) == {State.READY}


@pytest.mark.parametrize("chosen", [0, 2, 99])
def test_a_host_does_not_talk_to_a_plugin_of_another_version(chosen: int) -> None:
    pair = Pair()
    pair.host_asks("initialize", initialize())
    answer = {"protocol": chosen, "plugin": {"author": "acme", "name": "echo"}}
    (event,) = pair.to_host(line({"id": 1, "result": answer}))
    assert isinstance(event, Broken)
    assert str(chosen) in event.reason
    assert pair.host.state is State.CLOSED


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"protocol": "1", "plugin": {"author": "a", "name": "b"}},
        {"protocol": 1, "plugin": {"author": "a/b", "name": "b"}},
        {"protocol": 1, "plugin": {"author": "a", "name": ""}},
        {"protocol": 1, "plugin": {"author": "a", "name": "b", "admin": True}},
        None,
    ],
)
def test_an_invalid_answer_to_initialize_ends_the_connection(answer: object) -> None:
    pair = Pair()
    pair.host_asks("initialize", initialize())
    (event,) = pair.to_host(line({"id": 1, "result": answer}))
    assert isinstance(event, Broken)


def test_a_refused_initialize_leaves_both_ends_where_they_were() -> None:
    pair = Pair()
    id_ = pair.host_asks("initialize", initialize())
    (event,) = pair.to_host(pair.plugin.refuse(id_, InvalidArgumentError("not today")))
    assert isinstance(event, Refused)
    assert states(pair) == {State.CONNECTED}


# -- the end --------------------------------------------------------------------------------------


def test_draining_lets_runs_finish_but_starts_none() -> None:
    pair = pair_in(State.DRAINING)
    with pytest.raises(LinkError, match="run/start"):
        pair.host.request("run/start", start("r2"))
    assert pair.host.state is State.DRAINING
    assert "r1" in pair.host.runs


def test_a_closed_link_says_and_hears_nothing() -> None:
    pair = pair_in(State.READY)
    waiting = pair.plugin_asks("host/host.info", {"run_id": "r1"})
    pair.to_host(b"x" * 1_000)
    assert pair.host.buffered_bytes == 1_000
    assert list(pair.host.close("plugin died")) == [Broken("plugin died")]
    assert list(pair.host.close("again")) == []
    assert pair.to_host(line({"method": "run/end", "params": {"run_id": "r1"}})) == []
    assert list(pair.host.receive_frame(b"noise")) == []
    assert pair.host.reply(waiting, {}) == b""
    assert pair.host.refuse(waiting, InvalidArgumentError("no")) == b""
    assert pair.host.stream(waiting, {}) == b""
    assert pair.host.data_to_send() == b""
    assert pair.host.buffered_bytes == 0


def test_nothing_comes_out_after_the_line_that_broke_the_connection() -> None:
    pair = pair_in(State.READY)
    events = pair.to_host(b"not json\n" + line({"method": "run/end", "params": {"run_id": "r1"}}))
    assert [type(event) for event in events] == [Broken]
