"""Bytes to messages and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler_protocol import Limits, Link, Side
from hostler_protocol.frames import (
    ErrorResponse,
    Frame,
    LineSplitter,
    Malformed,
    Notification,
    Oversized,
    Request,
    Response,
    describe_oversized,
    encode,
    encode_request,
    encode_response,
    parse,
    raw,
)
from hostler_protocol.incoming import Broken, Called
from hostler_protocol.limits import MAX_OVERSIZED_TOKENS
from support.samples import RAW_JSON, TEXT

IDS = st.integers(-(2**63), 2**63 - 1) | TEXT
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Request, IDS, TEXT, RAW_JSON),
    st.builds(Notification, TEXT, RAW_JSON),
    st.builds(Response, IDS, RAW_JSON),
    st.builds(ErrorResponse, IDS | st.none(), st.integers(-(2**31), 2**31), TEXT, st.none() | RAW_JSON),
)


def plain(frame: Frame | Malformed) -> dict[str, object]:
    values = msgspec.structs.asdict(frame)
    return {name: bytes(v) if isinstance(v, msgspec.Raw) else v for name, v in values.items()}


@given(FRAMES)
@settings(deadline=None)
def test_a_frame_comes_back_as_it_was(frame: Frame) -> None:
    data = encode(frame)
    assert b"\n" not in data
    again = parse(data)
    assert type(again) is type(frame)
    assert plain(again) == plain(frame)
    assert json.loads(data)["jsonrpc"] == "2.0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a JSON-RPC message"),
        ("hello", "not a JSON-RPC message"),
        ("[]", "object"),
        ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "object"),
        ("{}", "jsonrpc"),
        ('{"jsonrpc":"1.0","id":1,"method":"m"}', "1.0"),
        ('{"jsonrpc":2.0,"id":1,"method":"m"}', "jsonrpc"),
        ('{"jsonrpc":"2.0"}', "method, a result or an error"),
        ('{"jsonrpc":"2.0","id":1}', "method, a result or an error"),
        ('{"jsonrpc":"2.0","id":1,"error":null}', "method, a result or an error"),
        ('{"jsonrpc":"2.0","id":1,"method":null}', "method"),
        ('{"jsonrpc":"2.0","id":1,"method":5}', "method"),
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', "id"),
        ('{"jsonrpc":"2.0","id":null,"result":{}}', "id"),
        ('{"jsonrpc":"2.0","result":{}}', "id"),
        ('{"jsonrpc":"2.0","id":1,"method":"m","result":{}}', "not both"),
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', "not both"),
        ('{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}', "code"),
        ('{"jsonrpc":"2.0","id":1,"error":"bad"}', "error"),
        ('{"jsonrpc":"2.0","id":1,"method":"m"} x', "malformed"),
        ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":01}}', "number"),
        ('{"jsonrpc":"2.0","id":1,"method":"m","params":nan}', "malformed"),
        ('{"jsonrpc":"2.0","id":1,"method":"m","params":NaN}', "byte 46: JSON has no NaN; write null"),
        (
            '{"jsonrpc":"2.0","method":"m","params":{"a":[1,Infinity]}}',
            "byte 47: JSON has no Infinity",
        ),
        ('{"jsonrpc":"2.0","id":1,"result":{"NaN":-Infinity}}', "JSON has no Infinity; write null"),
        ("\ufeff{}", "not a JSON-RPC message"),
        ("[" * 100_000, "not a JSON-RPC message"),
    ],
)
def test_what_is_no_message_is_malformed_with_the_reason(text: str, words: str) -> None:
    found = parse(text.encode())
    assert isinstance(found, Malformed)
    assert words in found.reason


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("half \\ud83d", "half \ufffd"),
        ("\\ude00 half", "\ufffd half"),
        ("\\uD83D\\ud83d\\ude00", "\ufffd\U0001f600"),
        ("\\\\ud83d \\ud83d", "\\ud83d \ufffd"),
        ("\\ud83d\\n", "\ufffd\n"),
    ],
)
def test_half_a_character_does_not_cost_the_connection(written: str, read: str) -> None:
    frame = parse(b'{"jsonrpc":"2.0","method":"m","params":{"text":"' + written.encode() + b'"}}')
    assert isinstance(frame, Notification)
    assert msgspec.json.decode(frame.params) == {"text": read}


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"result":{},"error":null}',
        '{"id":1,"result":{},"jsonrpc":"2.0","extra":[1]}',
        ' {\n"jsonrpc" : "2.0",\t"id":1, "result": {} } ',
        '{"jsonrpc":"1","jsonrpc":"2.0","id":9,"id":1,"result":5,"result":{}}',
    ],
)
def test_what_other_programs_write_is_understood(text: str) -> None:
    found = parse(text.encode())
    assert isinstance(found, Response)
    assert (found.id, bytes(found.result)) == (1, b"{}")


# -- lines ----------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8), st.integers(1, 40))
@settings(deadline=None)
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int], limit: int) -> None:
    whole = list(LineSplitter(limit).feed(data + b"\n"))
    splitter = LineSplitter(limit)
    found: list[bytes | Oversized] = []
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        found += splitter.feed(data[at:cut])
        at = max(at, cut)
        assert splitter.buffered_bytes <= limit
    found += splitter.feed(b"\n")
    assert found == whole


@given(st.lists(st.sampled_from([b"\n", b"ab", b" ", b"\r", b'{"a":1}']), max_size=6), st.integers(1, 8))
@settings(deadline=None)
def test_a_line_that_comes_by_itself_is_the_same_line(parts: list[bytes], limit: int) -> None:
    data = b"".join(parts)
    line = LineSplitter(limit).whole_line(data)
    if line is not None:
        assert [line] == list(LineSplitter(limit).feed(data))
    else:
        assert data.count(b"\n") != 1 or not data.endswith(b"\n") or not data.strip() or len(data) > limit


def test_a_line_is_not_by_itself_while_another_one_is_unfinished() -> None:
    splitter = LineSplitter(100)
    assert splitter.whole_line(b"a\n") == b"a"
    assert list(splitter.feed(b"a")) == []
    assert splitter.whole_line(b"b\n") is None
    assert list(splitter.feed(b"b\n")) == [b"ab"]
    assert list(splitter.feed(b"x" * 200)) == []
    assert splitter.whole_line(b"y\n") is None
    assert isinstance(next(iter(splitter.feed(b"y\n"))), Oversized)
    assert splitter.whole_line(b"c\n") == b"c"


@pytest.mark.parametrize("kind", [bytearray, lambda line: memoryview(bytearray(line))])
@pytest.mark.parametrize("name", ["params", "result"])
def test_what_was_in_a_buffer_stays_when_it_is_written_again(kind: Any, name: str) -> None:
    method = b'"method":"m",' if name == "params" else b""
    line = kind(b'{"jsonrpc":"2.0","id":1,%b"%b":{"key":"value"}}' % (method, name.encode()))
    found = parse(line)
    memoryview(line)[:] = b" " * len(line)
    assert bytes(getattr(found, name)) == b'{"key":"value"}'


@pytest.mark.parametrize("id_", [7, "c7", 'a"b'])
def test_requests_and_their_answers_are_encoded_as_any_frame(id_: int | str) -> None:
    value = raw({"text": "\u20ac"})
    assert encode_request(id_, "host/state.get", value) == encode(Request(id_, "host/state.get", value))
    assert encode_response(id_, value) == encode(Response(id_, value))


def test_both_line_ends_and_empty_lines_are_taken() -> None:
    assert list(LineSplitter(100).feed(b"a\r\n\n \t\r\nb\n")) == [b"a", b"b"]


def test_an_endless_line_is_not_kept() -> None:
    splitter = LineSplitter(1_000)
    for _ in range(1_000):
        assert list(splitter.feed(b"x" * 1_000)) == []
        assert splitter.buffered_bytes <= 2_000
    assert list(splitter.feed(b"\nnext\n")) == [Oversized(1_000_000), b"next"]


# -- messages too large to parse ------------------------------------------------------------------


def cut(data: bytes, sizes: list[int], limit: int = 10) -> Oversized:
    splitter = LineSplitter(limit)
    rest, found = data, list[bytes | Oversized]()
    for size in sizes:
        found += splitter.feed(rest[:size])
        rest = rest[size:]
    found += splitter.feed(rest + b"\n")
    (only,) = found
    assert isinstance(only, Oversized)
    return only


@given(
    st.fixed_dictionaries(
        {"filler": RAW_JSON.map(msgspec.json.decode)},
        optional={
            "id": IDS,
            "method": st.sampled_from(["run/result", "host/state.get"]),
            "params": st.fixed_dictionaries(
                {"data": st.just({"run_id": "no", "id": [{"run_id": "no"}]})}, optional={"run_id": TEXT}
            ),
        },
    ).flatmap(lambda message: st.permutations(list(message.items())).map(dict)),
    st.lists(st.integers(1, 30), max_size=20),
)
@settings(deadline=None)
def test_members_are_found_wherever_they_stand(message: dict[str, object], sizes: list[int]) -> None:
    data = msgspec.json.encode(message)
    found = cut(data + b" " * 10, sizes)
    params = message.get("params", {})
    assert isinstance(params, dict)
    assert found.size == len(data) + 10
    assert (found.id, found.method) == (message.get("id"), message.get("method")) or (
        found.method == "run/result" and found.id is None  # a result tells enough before its end
    )
    if found.method == "run/result" and found.id is None:
        assert found.run_id == params.get("run_id")


@given(
    st.binary(max_size=300) | st.text('{}[]:,"\\ aid', max_size=300).map(str.encode),
    st.lists(st.integers(1, 9)),
)
@settings(deadline=None)
def test_noise_is_scanned_the_same_however_it_is_cut(noise: bytes, sizes: list[int]) -> None:
    noise = noise.replace(b"\n", b" ") + b" " * 11
    assert cut(noise, sizes) == cut(noise, [])


@pytest.mark.parametrize(
    "text",
    [
        '{"id":true,"method":5,"params":{"run_id":7}}',
        '{"id":null,"method":null,"params":{"run_id":null}}',
        '{"id":{"id":1},"method":["m"],"params":["run_id","r"]}',
        '{"x":{"id":1,"method":"m"},"params":{"x":{"run_id":"r"}}}',
        '{"x":"\\",\\"id\\":1,\\"method\\":\\"m\\""}',
        '{"id":' + "9" * 5_000 + ',"method":"' + "m" * 5_000 + '"}',
    ],
)
def test_only_the_members_themselves_count(text: str) -> None:
    found = describe_oversized(text.encode())
    assert (found.id, found.method, found.run_id) == (None, None, None)


def test_a_cut_may_fall_anywhere() -> None:
    text = rb'{"\"x\\":[null,{"\u001f\\":"\""}],"params":{"\\":1,"run_id":"\u0072\"1"},"method":"run/result"}'
    for at in range(len(text)):
        assert cut(text, [at], limit=5).run_id == 'r"1'
        assert cut(text, [1] * at, limit=5).run_id == 'r"1'


def test_a_cut_may_fall_anywhere_in_a_string_too_long_to_matter() -> None:
    text = b'{"x":"' + b"y" * 2_000 + rb'\\\",\"id\":5,\\","id":6,"method":"m"}'
    for at in range(1_900, len(text)):
        assert cut(text, [at], limit=1_100).id == 6
        assert cut(text, [at, *[1] * (len(text) - at)], limit=1_100).id == 6


def test_scanning_ends_with_its_budget() -> None:
    noise = b'{"a":[' + b"1," * (MAX_OVERSIZED_TOKENS + 1)
    assert describe_oversized(noise + b'1],"id":5,"method":"m"}').id is None


def test_an_unterminated_string_is_read_once() -> None:
    """A pattern that starts again at each quote would take hours for this."""
    assert describe_oversized(b'{"a":' + b'"\\"' * 2_000_000).id is None
    assert describe_oversized(b'{"a":"' + b'\\"' * 4_000_000).id is None


# -- one message per frame ------------------------------------------------------------------------


def test_frames_of_a_websocket_are_messages() -> None:
    link = Link(Side.PLUGIN, Limits(max_message_bytes=4_000))
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize",'
        '"params":{"protocol":{"min":1,"max":1},\n"host":{"name":"h","version":"1"}}}'
    )
    (event,) = link.receive_frame(hello)
    assert isinstance(event, Called)
    assert link.data_to_send() == b""


@pytest.mark.parametrize(
    "frame", ["", b"", "\ud800", b"\xff", "x" * 5_000, '{"jsonrpc":"2.0"}\n{"jsonrpc":"2.0"}']
)
def test_a_frame_that_is_no_message_ends_the_connection(frame: str | bytes) -> None:
    (event,) = Link(Side.HOST, Limits(max_message_bytes=4_000)).receive_frame(frame)
    assert isinstance(event, Broken)
