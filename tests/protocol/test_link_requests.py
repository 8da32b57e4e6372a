"""Requests and their answers: refusals, bounds, cancelling, late answers."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from hostler_protocol import Limits
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PluginProtocolError,
    RateLimitedError,
    RemoteFaultError,
    StorageError,
    UnavailableError,
)
from hostler_protocol.incoming import Broken, CallCancelled, Called, Refused, Replied, Warned
from hostler_protocol.limits import (
    MAX_MESSAGE_ID_CHARS,
    MAX_OPEN_REQUEST_BYTES,
    MAX_OPEN_REQUESTS,
    MAX_REASON_CHARS,
    MAX_UNSENT_ANSWER_BYTES,
    MIB,
)
from hostler_protocol.methods import CallCancelNote, NoParams
from support.links import Pair, line, lines

INFO = {"run_id": "r1"}
SMALL = Limits(max_message_bytes=4_000, max_result_bytes=1_000)


@pytest.fixture
def pair() -> Pair:
    pair = Pair.ready()
    pair.start("r1")
    return pair


def call(id_: object, method: str = "host/prompt.get", **params: Any) -> bytes:
    return line({"id": id_, "method": method, "params": {"run_id": "r1", **params}})


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "run_id"),
        ({"run_id": 5, "scope": "actor", "key": "k"}, r"$.run_id"),
        ({"run_id": "r1", "scope": "actor"}, "key"),
        ({"run_id": "r1", "scope": "actor", "key": None}, r"$.key"),
        ([], "array"),
        ("r1", "str"),
        (None, "null"),
    ],
)
def test_bad_parameters_are_refused_by_name(pair: Pair, params: object, words: str) -> None:
    assert pair.to_host(line({"id": 1, "method": "host/state.get", "params": params})) == []
    error = pair.refusal()
    assert error["code"] == -32602
    assert error["data"]["code"] == "invalid_argument"
    assert "host/state.get" in error["message"]
    assert words in error["message"]


def test_a_call_without_parameters_is_a_call_with_none(pair: Pair) -> None:
    pair.to_host(line({"id": 1, "method": "host/host.info"}))
    assert "run_id" in pair.refusal()["message"]
    (event,) = pair.to_plugin(line({"id": 90, "method": "ping"}))
    assert event == Called(90, "ping", NoParams())


def test_a_claimed_identity_is_not_part_of_the_parameters(pair: Pair) -> None:
    (event,) = pair.to_host(
        call(1, "host/state.get", scope="actor", key="k", plugin="acme/other", workspace="w")
    )
    assert isinstance(event, Called)
    assert set(msgspec.structs.asdict(event.params)) == {"run_id", "alone", "scope", "key"}


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_nesting_too_deep_is_refused(pair: Pair, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    message = b'{"jsonrpc":"2.0","id":1,"method":"host/state.set","params":{"run_id":"r1","x":%b}}\n' % deep
    events = pair.to_host(message)
    assert [type(event) for event in events] in ([Broken], [])


def test_a_refusal_does_not_repeat_a_large_text(pair: Pair) -> None:
    pair.to_host(call(1, "host/storage.get", area="x" * 100_000, key="k"))
    pair.to_host(line({"id": 2, "method": "x" * 100_000}))
    for answer in lines(pair.host.data_to_send()):
        assert len(answer["error"]["message"]) <= MAX_REASON_CHARS


# -- ids and bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id_", [1, "1", 0, -1, "", 2**63 - 1, -(2**63), "x" * MAX_MESSAGE_ID_CHARS, "\u0000ä"]
)
def test_an_id_comes_back_as_it_was(pair: Pair, id_: int | str) -> None:
    (event,) = pair.to_host(call(id_))
    assert isinstance(event, Called)
    (answer,) = lines(pair.host.reply(event.id, {"prompt": []}))
    assert answer["id"] == id_
    assert type(answer["id"]) is type(id_)


@pytest.mark.parametrize(
    "id_", [True, None, 1.0, 1.5, [], {}, 2**63, -(2**63) - 1, 10**400, "x" * (MAX_MESSAGE_ID_CHARS + 1)]
)
def test_an_impossible_id_ends_the_connection(pair: Pair, id_: object) -> None:
    (event,) = pair.to_host(call(id_))
    assert isinstance(event, Broken)


def test_ids_of_different_types_are_different(pair: Pair) -> None:
    events = pair.to_host(call(1) + call("1"))
    assert [event.id for event in events if isinstance(event, Called)] == [1, "1"]
    (cancelled,) = pair.to_host(line({"method": "host/cancel", "params": {"id": "1"}}))
    assert cancelled == CallCancelled("1", "r1")
    assert pair.host.reply(1, {"prompt": []}) != b""


def test_an_open_id_is_not_used_twice(pair: Pair) -> None:
    pair.to_host(call("c1"))
    assert pair.to_host(call("c1")) == []
    error = pair.refusal()
    assert error["code"] == -32600
    assert "c1" in error["message"]
    assert pair.host.reply("c1", {"prompt": []}) != b""
    assert isinstance(pair.to_host(call("c1"))[0], Called)


def test_open_requests_are_bounded_in_number(pair: Pair) -> None:
    events = pair.to_host(b"".join(call(n) for n in range(MAX_OPEN_REQUESTS)))
    assert len(events) == MAX_OPEN_REQUESTS
    assert pair.to_host(call("one more")) == []
    error = pair.refusal()
    assert error["data"]["code"] == "rate_limited"
    assert error["data"]["retryable"] is True
    assert error["data"]["details"]["retry_after"] > 0
    pair.host.reply(0, {"prompt": []})
    assert len(pair.to_host(call("one more"))) == 1


def test_open_requests_are_bounded_in_bytes(pair: Pair) -> None:
    size = 4 * MIB
    fitting = MAX_OPEN_REQUEST_BYTES // (size + 100)
    for number in range(fitting):
        assert len(pair.to_host(call(number, x="x" * size))) == 1
    assert pair.to_host(call("one more", x="x" * size)) == []
    assert pair.refusal()["data"]["code"] == "rate_limited"
    pair.to_host(line({"method": "host/cancel", "params": {"id": 0}}))
    assert len(pair.to_host(call("one more", x="x" * size))) == 1


def test_a_peer_that_never_reads_its_refusals_is_cut_off(pair: Pair) -> None:
    flood = line({"id": 1, "method": "nonsense"}) * 100
    events = []
    for _ in range(MAX_UNSENT_ANSWER_BYTES // 100):
        events = pair.to_host(flood)
        if events:
            break
    assert [type(event) for event in events] == [Broken]
    assert pair.host.data_to_send() == b""


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        ["jsonrpc", "id", "method", "params"],
        ["jsonrpc", "method", "params", "id"],
        ["params", "method", "id"],
    ],
)
@pytest.mark.parametrize("id_", [5, "c5"])
def test_a_request_too_large_is_answered(order: list[str], id_: int | str) -> None:
    pair = Pair.ready(SMALL)
    pair.start("r1")
    params = {"value": ['"id":1', {"id": 2, "x": "y" * 5_000}], "run_id": "r1", "id": 3}
    whole = {"jsonrpc": "2.0", "id": id_, "method": "host/state.set", "params": params}
    (event,) = pair.to_host(line({name: whole[name] for name in order}))
    assert isinstance(event, Warned)
    assert not event.foreign
    (answer,) = lines(pair.host.data_to_send())
    assert answer["id"] == id_
    assert answer["error"]["data"]["code"] == "payload_too_large"
    assert "4,000" in answer["error"]["message"]
    assert len(pair.to_host(call(6))) == 1


def test_a_request_of_our_own_over_the_size_is_not_sent() -> None:
    pair = Pair.ready(SMALL)
    pair.start("r1")
    with pytest.raises(PayloadTooLargeError, match=r"4,000"):
        pair.plugin.request(
            "host/state.set", {"run_id": "r1", "scope": "actor", "key": "k", "value": "x" * 5_000}
        )
    assert pair.plugin_asks("host/prompt.get", INFO) == "c1"


def test_a_message_of_exactly_the_limit_is_taken() -> None:
    pair = Pair.ready(SMALL)
    pair.start("r1")
    room = SMALL.max_message_bytes - (len(call(1, x="")) - 1)
    assert isinstance(pair.to_host(call(1, x="x" * room))[0], Called)
    assert isinstance(pair.to_host(call(2, x="x" * (room + 1)))[0], Warned)


@pytest.mark.parametrize("error", [None, NotFoundError("x" * 5_000), HostlerError("no", note="x" * 5_000)])
def test_an_answer_over_the_size_becomes_a_refusal(error: HostlerError | None) -> None:
    pair = Pair.ready(SMALL)
    pair.start("r1")
    id_ = pair.plugin_asks("host/state.get", {"run_id": "r1", "scope": "actor", "key": "k"})
    large = {"value": "x" * 5_000, "version": 1}
    data = pair.host.reply(id_, large) if error is None else pair.host.refuse(id_, error)
    assert len(data) <= SMALL.max_message_bytes
    (event,) = pair.to_plugin(data)
    assert isinstance(event, Refused)
    assert event.error.code == ("payload_too_large" if error is None else error.code)


def test_an_answer_of_the_peer_over_the_size_refuses_that_request_alone() -> None:
    pair = Pair.ready(SMALL)
    id_ = pair.host_asks("runners/list", NoParams())
    (event,) = pair.to_host(line({"id": id_, "result": {"runners": ["x" * 5_000]}}))
    assert isinstance(event, Refused)
    assert isinstance(event.error, PayloadTooLargeError)
    pair.start("r1")


# -- answers --------------------------------------------------------------------------------------


def test_an_answer_comes_back_typed_to_its_request(pair: Pair) -> None:
    first = pair.plugin_asks("host/state.get", {"run_id": "r1", "scope": "actor", "key": "a"})
    second = pair.plugin_asks("host/prompt.get", INFO)
    (later,) = pair.to_plugin(pair.host.reply(second, {"prompt": []}))
    (sooner,) = pair.to_plugin(pair.host.reply(first, {"value": [1], "version": 4}))
    assert isinstance(later, Replied)
    assert isinstance(sooner, Replied)
    assert (later.id, later.method) == (second, "host/prompt.get")
    assert (sooner.result.value, sooner.result.version) == ([1], 4)


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgumentError("no", field="x"),
        ConflictError("no"),
        RateLimitedError("slow down", 2.5, bucket="calls"),
        CancelledCallError("over"),
    ],
)
def test_a_refusal_arrives_as_the_same_error(pair: Pair, error: HostlerError) -> None:
    id_ = pair.plugin_asks("host/prompt.get", INFO)
    (event,) = pair.to_plugin(pair.host.refuse(id_, error))
    assert isinstance(event, Refused)
    assert type(event.error) is type(error)
    assert (event.error.message, event.error.details) == (error.message, error.details)


@pytest.mark.parametrize("error", [StorageError("disk full"), UnavailableError("later"), HostlerError("hm")])
def test_an_error_of_the_host_arrives_as_runtime_error(pair: Pair, error: HostlerError) -> None:
    id_ = pair.plugin_asks("host/prompt.get", INFO)
    (event,) = pair.to_plugin(pair.host.refuse(id_, error))
    assert isinstance(event, Refused)
    assert isinstance(event.error, RemoteFaultError)
    assert event.error.fault.code == "runtime_error"
    assert event.error.fault.retryable is error.retryable


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"code": "confetti", "message": "m"},
        {"code": "conflict", "message": "m", "details": {"message": 1, "self": 2, "fault": 3, "error": 4}},
        {"code": "rate_limited", "message": "m", "details": {"retry_after": "soon", "message": "x"}},
        {"code": "rate_limited", "message": "m", "details": {"retry_after": -1}},
        {"code": "rate_limited", "message": "m", "details": {"retry_after": 10**300}},
        {"code": "rate_limited", "message": "m"},
        {"code": "runtime_error", "message": "m", "details": {"message": "x"}},
        "text",
        [[[]]],
    ],
)
def test_whatever_an_error_carries_it_arrives_as_one(pair: Pair, data: object) -> None:
    id_ = pair.plugin_asks("host/prompt.get", INFO)
    (event,) = pair.to_plugin(line({"id": id_, "error": {"code": -32000, "message": "m", "data": data}}))
    assert isinstance(event, Refused)
    assert event.error.message.startswith("m")
    if isinstance(event.error, RateLimitedError):
        assert 0 <= event.error.retry_after < math.inf


def test_an_invalid_answer_refuses_the_request_alone(pair: Pair) -> None:
    id_ = pair.host_asks("runners/list", NoParams())
    (event,) = pair.to_host(line({"id": id_, "result": {"runners": {}}}))
    assert isinstance(event, Refused)
    assert isinstance(event.error, PluginProtocolError)
    assert "runners/list" in event.error.message


@pytest.mark.parametrize(
    "answer", [{"id": 99, "result": {}}, {"id": None, "error": {"code": 1, "message": "x" * 9_000}}]
)
def test_an_answer_to_nothing_is_a_warning(pair: Pair, answer: dict[str, object]) -> None:
    (event,) = pair.to_host(line(answer))
    assert isinstance(event, Warned)
    assert len(event.reason) <= MAX_REASON_CHARS


def test_a_second_answer_is_dropped(pair: Pair) -> None:
    id_ = pair.host_asks("ping", NoParams())
    first, second = pair.to_host(line({"id": id_, "result": {}}) * 2)
    assert isinstance(first, Replied)
    assert isinstance(second, Warned)
    assert pair.plugin.reply(id_, NoParams()) != b""
    assert pair.plugin.reply(id_, NoParams()) == b""


# -- giving up ------------------------------------------------------------------------------------


def test_a_cancelled_call_is_told_once_and_never_answered(pair: Pair) -> None:
    id_ = pair.plugin_asks("host/prompt.get", INFO)
    pair.plugin.abandon(id_)
    note = pair.plugin.notify("host/cancel", CallCancelNote(id=id_))
    assert pair.to_host(note + note) == [CallCancelled(id_, "r1")]
    assert pair.host.reply(id_, {"prompt": []}) == b""
    assert pair.host.refuse(id_, NotFoundError("x")) == b""
    assert pair.host.stream(id_, {"delta": {}}) == b""


def test_an_answer_that_crosses_the_cancelling_is_dropped(pair: Pair) -> None:
    id_ = pair.plugin_asks("host/prompt.get", INFO)
    crossing = pair.host.reply(id_, {"prompt": []})
    pair.plugin.abandon(id_)
    assert pair.to_host(pair.plugin.notify("host/cancel", CallCancelNote(id=id_))) == []
    assert pair.to_plugin(crossing) == []
