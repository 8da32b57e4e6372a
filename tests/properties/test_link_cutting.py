"""However the bytes of a conversation are cut, the same comes out of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler_protocol import Limits, Link, Side
from hostler_protocol.incoming import Incoming
from hostler_protocol.methods import NoParams
from support.examples import examples
from support.links import Pair, initialize, line, result, start

LIMITS = Limits(max_message_bytes=3_000, max_result_bytes=600)


def prepared(side: Side) -> Link:
    """Build a link that has said what the recorded conversation answers."""
    link = Link(side, LIMITS)
    if side is Side.HOST:
        link.request("initialize", initialize(LIMITS))
        list(link.receive(line({"id": 1, "result": {"protocol": 1, "plugin": {"author": "a", "name": "b"}}})))
        link.request("runners/list", NoParams())
        for run_id in ("r1", "r2"):
            link.request("run/start", start(run_id, credit=6))
    return link


def said_by_a_plugin() -> bytes:
    return b"".join(
        [
            line({"id": 2, "result": {"runners": [{"id": "plugin:a/b/c"}]}}),
            line({"id": 3, "result": {}}),
            line({"id": 4, "result": {}}),
            result("r1", 1, data={"text": "äöü \u0000 \U0001f600"}),
            b"\r\n \n",
            result("r2", 1),
            result("r1", 3),
            result("r1", 2),
            result("r1", 2),
            result("r9", 1),
            line({"id": "c1", "method": "host/prompt.get", "params": {"run_id": "r1"}}),
            line({"id": "c2", "method": "host/state.set", "params": {"run_id": "r1", "value": "x" * 4_000}}),
            line({"id": "c3", "method": "host/state.set", "params": {"run_id": "r1"}}),
            line({"method": "host/cancel", "params": {"id": "c1"}}),
            result("r2", 2, data={"text": "x" * 700}),
            result("r1", 4, data={"text": "x" * 9_000}),
            line({"method": "run/end", "params": {"run_id": "r1"}}),
            line({"method": "confetti", "params": {}}),
            line({"id": 99, "error": {"code": -32000, "message": "what?"}}),
            b"this is no message\n",
            result("r1", 5),
        ]
    )


def said_by_a_host() -> bytes:
    pair = Pair(LIMITS)
    said = [pair.host.request("initialize", initialize(LIMITS))[1]]
    list(pair.plugin.receive(said[0]))
    answer = {"protocol": 1, "plugin": {"author": "a", "name": "b"}}
    pair.to_host(line({"id": 1, "result": answer}))
    said.append(pair.host.request("ping", NoParams())[1])
    said.append(line({"method": "run/credit", "params": {"run_id": "r1", "results": 2}}))
    said.append(line({"id": 7, "result": "x" * 5_000}))
    return b"".join(said)


def plain(events: list[Incoming]) -> list[Any]:
    return [(type(event).__name__, msgspec.json.encode(_values(event))) for event in events]


def _values(event: Incoming) -> dict[str, Any]:
    values = msgspec.structs.asdict(event)
    return {name: repr(v) if isinstance(v, Exception) else v for name, v in values.items()}


def hear(link: Link, pieces: list[bytes]) -> tuple[list[Any], bytes]:
    events: list[Incoming] = []
    answers = b""
    for piece in pieces:
        events += link.receive(piece)
        answers += link.data_to_send()
        assert link.buffered_bytes <= LIMITS.max_message_bytes
    return plain(events), answers


SAID = {Side.HOST: said_by_a_plugin(), Side.PLUGIN: said_by_a_host()}


@given(st.sampled_from(Side), st.lists(st.integers(0, 20_000), max_size=60))
@settings(deadline=None, max_examples=examples(80, 2_000))
def test_any_cutting_gives_the_same_events_and_answers(side: Side, cuts: list[int]) -> None:
    said = SAID[side]
    edges = [0, *sorted(cut % len(said) for cut in cuts), len(said)]
    pieces = [said[a:b] for a, b in pairwise(edges)]
    assert hear(prepared(side), pieces) == hear(prepared(side), [said])


RESULTS = st.fixed_dictionaries(
    {
        "run_id": st.sampled_from(["r1", "r1", "r1", "r2", "r9"]),
        "type": st.sampled_from(["message.delta", "log", "confetti", 7]),
        "sequence": st.integers(1, 6) | st.sampled_from([0, -1, 2**53, "1"]),
        "data": st.sampled_from([{"text": "x"}, {"text": "x" * 560}, {"text": "x" * 700}, [], "\ud83d"]),
    },
    optional={"usage": st.sampled_from([{"input_tokens": 1}, {"input_tokens": -1}]), "more": st.none()},
)


@given(st.lists(st.tuples(st.integers(1, 3), RESULTS), max_size=25))
@settings(deadline=None, max_examples=examples(80, 2_000))
def test_results_are_taken_alike_however_their_json_is_written(sent: list[tuple[int, Any]]) -> None:
    next_one = {"r1": 0, "r2": 0, "r9": 0}
    messages = []
    for kind, drawn in sent:
        params = drawn
        if kind > 1:  # mostly in order
            next_one[drawn["run_id"]] += 1
            params = {**drawn, "sequence": next_one[drawn["run_id"]]}
        messages.append({"jsonrpc": "2.0", "method": "run/result", "params": params})
    dense = [json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in messages]
    other = [
        b'{"method":"run/result","jsonrpc":"2.0",' + each.partition(b'"run/result",')[2] for each in dense
    ]
    links = [prepared(Side.HOST) for _ in range(2)]
    for link in links:
        list(link.receive(line({"id": 3, "result": {}}) + line({"id": 4, "result": {}})))
    assert hear(links[0], [b"".join(dense)]) == hear(links[1], [b"".join(other)])
    assert links[0].runs == links[1].runs
    assert [links[0].credit(run_id) for run_id in next_one] == [
        links[1].credit(run_id) for run_id in next_one
    ]


def test_byte_by_byte_too() -> None:
    for side, said in SAID.items():
        whole = hear(prepared(side), [said])
        assert hear(prepared(side), [said[at : at + 1] for at in range(len(said))]) == whole
        assert len(whole[0]) > 2


def test_the_recorded_conversation_shows_every_kind_of_event_a_host_can_get() -> None:
    events, answers = hear(prepared(Side.HOST), [SAID[Side.HOST]])
    assert {name for name, _ in events} == {
        "Replied",
        "ResultArrived",
        "Warned",
        "Called",
        "CallCancelled",
        "RunBroken",
        "RunLeft",
        "Broken",
    }
    assert answers.count(b"\n") == 2
