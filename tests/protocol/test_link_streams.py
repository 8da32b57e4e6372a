"""Streaming answers: order of their pieces, gaps, pieces of calls that were given up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler_protocol import Limits, Side
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.incoming import Refused, Replied, StreamArrived, Warned
from hostler_protocol.link import Link
from hostler_protocol.methods import NoParams, StreamNote
from support.links import Pair, line

SMALL = Limits(max_message_bytes=4_000, max_result_bytes=1_000)


@pytest.fixture
def pair() -> Pair:
    pair = Pair.ready()
    pair.start("r1")
    return pair


def streaming(pair: Pair) -> Any:
    return pair.plugin_asks("host/model.stream", {"run_id": "r1", "model_id": "m", "messages": []})


def test_pieces_arrive_in_order_and_the_answer_closes_them(pair: Pair) -> None:
    id_, other = streaming(pair), streaming(pair)
    data = b"".join(
        pair.host.stream(each, {"delta": {"content": str(n)}}) for n in range(3) for each in (id_, other)
    )
    events = pair.to_plugin(data)
    pieces = [(e.id, e.index, msgspec.json.decode(e.chunk)) for e in events if isinstance(e, StreamArrived)]
    assert pieces == [(each, n, {"delta": {"content": str(n)}}) for n in range(3) for each in (id_, other)]
    whole = {"message": {"role": "assistant", "content": "012"}, "finish_reason": "stop"}
    (answer,) = pair.to_plugin(pair.host.reply(id_, whole))
    assert isinstance(answer, Replied)
    assert pair.host.stream(id_, {"delta": {}}) == b""
    assert pair.to_plugin(line(_piece(id_, 3))) == []


def _piece(id_: Any, index: int) -> dict[str, Any]:
    return {"method": "host/stream", "params": {"id": id_, "index": index, "chunk": {"delta": {}}}}


def test_a_repeated_piece_is_dropped_and_a_lost_one_refuses_the_call(pair: Pair) -> None:
    id_ = streaming(pair)
    events = pair.to_plugin(line(_piece(id_, 0)) * 2)
    assert [type(event) for event in events] == [StreamArrived, Warned]
    (event,) = pair.to_plugin(line(_piece(id_, 2)))
    assert isinstance(event, Refused)
    assert "piece 1" in event.error.message
    assert pair.to_plugin(line(_piece(id_, 1))) == []


def test_pieces_for_a_call_that_was_given_up_are_dropped(pair: Pair) -> None:
    id_ = streaming(pair)
    pair.plugin.abandon(id_)
    assert pair.to_plugin(pair.host.stream(id_, {"delta": {}})) == []


def test_a_piece_over_the_size_is_not_counted() -> None:
    pair = Pair.ready(SMALL)
    pair.start("r1")
    id_ = streaming(pair)
    with pytest.raises(PayloadTooLargeError):
        pair.host.stream(id_, {"delta": {"content": "x" * 5_000}})
    (event,) = pair.to_plugin(pair.host.stream(id_, {"delta": {}}))
    assert isinstance(event, StreamArrived)
    assert event.index == 0


@pytest.mark.parametrize("index", [-1, 2**70, 1.0, "0"])
def test_a_piece_has_a_possible_index(pair: Pair, index: object) -> None:
    id_ = streaming(pair)
    params = {"id": id_, "index": index, "chunk": {}}
    (event,) = pair.to_plugin(line({"method": "host/stream", "params": params}))
    assert isinstance(event, Warned)


def test_only_the_host_streams(pair: Pair) -> None:
    id_, _ = pair.host.request("ping", NoParams())
    note = StreamNote(id=id_, index=0, chunk=msgspec.Raw(b"{}"))
    (event,) = pair.to_host(
        line({"method": "host/stream", "params": msgspec.to_builtins({"id": note.id, "index": 0})})
    )
    assert isinstance(event, Warned)
    assert Link(Side.HOST).stream(1, {}) == b""
