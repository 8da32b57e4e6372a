"""Whatever a peer sends, only typed events come out, and memory stays within its bounds."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler_protocol import METHODS, Limits, Link, Side
from hostler_protocol.incoming import Broken, Incoming, Refused, RunBroken, Warned
from hostler_protocol.limits import MAX_REASON_CHARS, MAX_UNSENT_ANSWER_BYTES
from hostler_protocol.methods import NoParams
from support.examples import examples
from support.links import Pair
from support.samples import JSON, values

pytestmark = pytest.mark.gate("wire-bounds")

LIMITS = Limits(max_message_bytes=2_000, max_result_bytes=500)
KINDS = get_args(Incoming)


def talking(side: Side) -> Link:
    """Give one end of a conversation that is under way: a run, and open requests both ways."""
    pair = Pair.ready(LIMITS)
    pair.start("r1", credit=3)
    pair.host_asks("ping", NoParams())
    pair.plugin_asks("host/model.stream", {"run_id": "r1", "model_id": "m", "messages": []})
    return pair.host if side is Side.HOST else pair.plugin


def hear(link: Link, data: bytes) -> list[Incoming]:
    events = list(link.receive(data))
    assert all(isinstance(event, KINDS) for event in events)
    assert link.buffered_bytes <= LIMITS.max_message_bytes + len(data)
    assert len(link.data_to_send()) <= MAX_UNSENT_ANSWER_BYTES
    for event in events:
        if isinstance(event, Warned | Broken | RunBroken):
            assert len(event.reason) <= MAX_REASON_CHARS
        if isinstance(event, Refused):
            assert str(event.error)
    assert all(not isinstance(event, Broken) for event in events[:-1])
    return events


SCALARS = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        "1",
        "c1",
        "r1",
        -1,
        2**53,
        2**63,
        2**64,
        10**400,
        1.5,
        1e308,
        "",
        "\u0000",
        "x" * 200,
    ]
)
METHOD_NAMES = st.sampled_from(sorted(METHODS)) | st.text(max_size=5)
SHAPES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | SCALARS},
    optional={
        "id": SCALARS,
        "method": METHOD_NAMES | SCALARS,
        "params": st.fixed_dictionaries({}, optional={"run_id": SCALARS, "id": SCALARS, "sequence": SCALARS})
        | JSON,
        "result": JSON,
        "error": st.fixed_dictionaries({}, optional={"code": SCALARS, "message": SCALARS, "data": JSON})
        | SCALARS,
    },
)
SIDES = st.sampled_from(Side)


@given(SIDES, st.lists(st.binary(max_size=300), max_size=10))
@settings(deadline=None)
def test_noise(side: Side, pieces: list[bytes]) -> None:
    link = talking(side)
    for piece in pieces:
        hear(link, piece)


@given(SIDES, st.lists(SHAPES, max_size=6))
@settings(deadline=None, max_examples=examples(100, 2_000))
def test_json_of_the_wrong_shape(side: Side, messages: list[Any]) -> None:
    link = talking(side)
    for message in messages:
        hear(link, msgspec.json.encode(message) + b"\n")


@given(SIDES, st.data())
@settings(deadline=None, max_examples=examples(100, 2_000))
def test_valid_messages_in_any_order(side: Side, data: st.DataObject) -> None:
    """Each message is right in itself; nothing says that it fits here."""
    link = talking(side)
    for _ in range(4):
        method = METHODS[data.draw(st.sampled_from(sorted(METHODS)))]
        params = data.draw(values(method.params))
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method.name, "params": params}
        if data.draw(st.booleans()):
            message["id"] = data.draw(SCALARS)
        hear(link, msgspec.json.encode(message) + b"\n")


@given(SIDES, st.binary(min_size=1, max_size=4), st.integers(0, 400))
@settings(deadline=None)
def test_a_damaged_message(side: Side, damage: bytes, at: int) -> None:
    params = {"run_id": "r1", "type": "log", "sequence": 1, "data": {"level": "info", "text": "x" * 200}}
    good = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "run/result", "params": params})
    hear(talking(side), good[:at] + damage + good[at + len(damage) :] + b"\n")


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize(
    "line",
    [
        b"[" * 1_900,
        b'{"a":' * 380,
        b"[" * 1_000_000,
        b'{"a":' * 1_000_000,
        b'"' * 1_000_001,
        b"\\" * 1_000_000,
        b"\x00" * 1_999,
        b"\x00" * 1_000_000,
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"\xff","sequence":1}}',
        b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"\\ud800","type":"x","sequence":1}}',
        b'{"jsonrpc":"2.0","method":"run/result","params":%b}' % (b"[" * 900 + b"]" * 900),
        b'{"jsonrpc":"2.0","id":1,"method":"host/state.set","params":%b}'
        % (b'{"run_id":' * 150 + b"1" + b"}" * 150),
        b'{"jsonrpc":"2.0","id":1,"result":%b}' % (b"[" * 900 + b"]" * 900),
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":%b}}' % (b"[" * 900 + b"]" * 900),
        b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 1_900),
        b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"host/host.info","params":{},"params":{"run_id":"r1"}}',
        b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"r1","run_id":"r2","type":"x","sequence":1}}',
        b'{"__proto__":{},"jsonrpc":"2.0","id":"__class__","method":"__init__"}',
    ],
)
def test_known_bad_lines(side: Side, line: bytes) -> None:
    link = talking(side)
    for start in range(0, len(line), 65_536):
        hear(link, line[start : start + 65_536])
    hear(link, b"\n")
