"""Tools on the link: many calls in flight, answers in any order, sizes, cancelling."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from hostler_protocol import Limits
from hostler_protocol.errors import (
    CancelledCallError,
    InvalidArgumentError,
    PayloadTooLargeError,
    RateLimitedError,
)
from hostler_protocol.incoming import Broken, Called, Noted, Refused, Replied, Warned
from hostler_protocol.limits import MAX_OPEN_REQUESTS
from hostler_protocol.link import LinkError
from hostler_protocol.manifest import ToolManifest
from hostler_protocol.methods import InitializeReply, NoParams
from hostler_protocol.tools import (
    ToolCallContext,
    ToolCancelNote,
    ToolFound,
    ToolInvokeParams,
    ToolLookupParams,
    ToolOutcome,
)
from support.links import INITIALIZED, Pair, line

CONTEXT = ToolCallContext(run_id="r1", call_id="c1", effect_key="k1")
SMALL = Limits(max_message_bytes=4_000, max_result_bytes=1_000)


def invoke(number: int = 0, name: str = "book") -> ToolInvokeParams:
    return ToolInvokeParams(tool_name=name, parameters={"number": number}, context=CONTEXT)


def test_a_plugin_that_does_not_speak_of_tools_offers_none() -> None:
    assert msgspec.json.decode(msgspec.json.encode(INITIALIZED), type=InitializeReply).tools is False
    old = b'{"protocol":1,"plugin":{"author":"acme","name":"echo","version":"1"}}'
    assert msgspec.json.decode(old, type=InitializeReply).tools is False


def test_answers_come_in_any_order() -> None:
    pair = Pair.ready()
    ids = [pair.host_asks("tool/call", invoke(number)) for number in range(500)]
    shuffled = list(enumerate(ids))
    random.Random(5).shuffle(shuffled)
    for number, id_ in shuffled:
        (event,) = pair.to_host(pair.plugin.reply(id_, ToolOutcome(result=[number])))
        assert event == Replied(id_, "tool/call", ToolOutcome(result=[number]))


def test_a_call_needs_no_run_of_the_connection() -> None:
    pair = Pair.ready()
    id_ = pair.host_asks("tool/call", invoke())
    assert pair.plugin.runs == frozenset()
    (event,) = pair.to_host(pair.plugin.refuse(id_, InvalidArgumentError("no seat 12X")))
    assert isinstance(event, Refused)
    assert isinstance(event.error, InvalidArgumentError)


def test_a_lookup_tells_nothing_from_null() -> None:
    pair = Pair.ready()
    params = ToolLookupParams(tool_name="book", effect_key="k1", context=CONTEXT)
    for found in (ToolFound(found=False), ToolFound(found=True), ToolFound(found=True, result={"seat": 1})):
        id_ = pair.host_asks("tool/lookup", params)
        assert pair.to_host(pair.plugin.reply(id_, found)) == [Replied(id_, "tool/lookup", found)]


def test_a_cancelled_call_is_still_answered() -> None:
    pair = Pair.ready()
    id_ = pair.host_asks("tool/call", invoke())
    note = ToolCancelNote(id=id_)
    assert pair.to_plugin(pair.host.notify("tool/cancel", note)) == [Noted("tool/cancel", note)]
    (event,) = pair.to_host(pair.plugin.refuse(id_, CancelledCallError("stopped")))
    assert isinstance(event, Refused)
    assert isinstance(event.error, CancelledCallError)


@pytest.mark.parametrize("answer", ["reply", "refuse", "huge"])
def test_the_late_answer_of_a_call_given_up_is_no_offence(answer: str) -> None:
    pair = Pair.ready(SMALL)
    id_ = pair.host_asks("tool/call", invoke())
    pair.host.abandon(id_)
    late = {
        "reply": lambda: pair.plugin.reply(id_, ToolOutcome(result=1)),
        "refuse": lambda: pair.plugin.refuse(id_, CancelledCallError("stopped")),
        "huge": lambda: line({"id": id_, "result": {"result": "x" * 9_000}}),
    }[answer]()
    assert pair.to_host(late) == []
    (again,) = pair.to_host(line({"id": id_, "result": {"result": 1}}))
    assert isinstance(again, Warned)


def test_an_answer_to_nothing_is_dropped_with_a_warning() -> None:
    pair = Pair.ready()
    for wrong in (99, "99", "c1"):
        (event,) = pair.to_host(line({"id": wrong, "result": {"result": 1}}))
        assert isinstance(event, Warned)


def test_an_answer_without_a_result_is_an_error_of_that_call_alone() -> None:
    pair = Pair.ready()
    first, second = (pair.host_asks("tool/call", invoke(number)) for number in range(2))
    (event,) = pair.to_host(line({"id": first, "result": {"outcome": 1}}))
    assert isinstance(event, Refused)
    assert "result" in event.error.message
    (event,) = pair.to_host(pair.plugin.reply(second, ToolOutcome(result=None)))
    assert event == Replied(second, "tool/call", ToolOutcome(result=None))


def test_a_result_over_the_message_size_arrives_as_a_refusal() -> None:
    pair = Pair.ready(SMALL)
    id_ = pair.host_asks("tool/call", invoke())
    (event,) = pair.to_host(pair.plugin.reply(id_, ToolOutcome(result="x" * 5_000)))
    assert isinstance(event, Refused)
    assert isinstance(event.error, PayloadTooLargeError)


def test_parameters_over_the_message_size_are_not_sent() -> None:
    pair = Pair.ready(SMALL)
    params = ToolInvokeParams(tool_name="book", parameters={"text": "x" * 5_000}, context=CONTEXT)
    with pytest.raises(PayloadTooLargeError):
        pair.host.request("tool/call", params)


def test_a_plugin_takes_a_bounded_number_at_once() -> None:
    pair = Pair.ready()
    for number in range(MAX_OPEN_REQUESTS):
        pair.host_asks("tool/call", invoke(number))
    id_, data = pair.host.request("tool/call", invoke())
    assert pair.to_plugin(data) == []
    (event,) = pair.to_host(pair.plugin.data_to_send())
    assert isinstance(event, Refused)
    assert event.id == id_
    assert isinstance(event.error, RateLimitedError)


def test_a_draining_plugin_finishes_its_calls_and_takes_no_new_ones() -> None:
    pair = Pair.ready()
    id_ = pair.host_asks("tool/call", invoke())
    pair.host_asks("shutdown", NoParams())
    with pytest.raises(LinkError, match="tool/call"):
        pair.host.request("tool/call", invoke())
    (event,) = pair.to_host(pair.plugin.reply(id_, ToolOutcome(result="done")))
    assert isinstance(event, Replied)


@pytest.mark.parametrize(
    "params",
    [
        {"parameters": {}},
        {"tool_name": "book", "parameters": [], "context": {}},
        {"tool_name": "book", "parameters": {}, "context": {"run_id": "r1"}},
    ],
)
def test_a_call_of_the_wrong_form_is_refused(params: dict[str, Any]) -> None:
    pair = Pair.ready()
    assert pair.to_plugin(line({"id": 1, "method": "tool/call", "params": params})) == []
    assert b"-32602" in pair.plugin.data_to_send()


def test_an_unknown_key_is_refused_in_a_manifest_and_ignored_in_a_call() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown"):
        msgspec.json.decode(b'{"name":"book","effects":"pure"}', type=ToolManifest)
    pair = Pair.ready()
    params = {"tool_name": "book", "context": {"run_id": "r", "call_id": "c", "effect_key": "k", "x": 1}}
    (event,) = pair.to_plugin(line({"id": 1, "method": "tool/call", "params": params}))
    assert isinstance(event, Called)
    assert event.params.parameters == {}


def test_a_deep_result_breaks_neither_end() -> None:
    pair = Pair.ready()
    id_ = pair.host_asks("tool/call", invoke())
    deep = b'{"jsonrpc":"2.0","id":%s,"result":{"result":%s%s}}\n' % (
        str(id_).encode(),
        b"[" * 100_000,
        b"]" * 100_000,
    )
    events = pair.to_host(deep)
    assert all(isinstance(event, Refused | Broken) for event in events)
