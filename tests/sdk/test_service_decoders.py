"""The decoders of streams: cut anywhere, bounded, and strict about what is no such stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler_sdk.services import JsonSequenceDecoder, ServerEvent, ServiceFailure, SseDecoder
from hostler_sdk.services.think_tags import ThinkFilter

STREAM = (
    "\ufeffdata: one\n\n: a comment\nid: 7\nretry: 10\nevent: named\ndata:two\ndata:  three\n\n"
    "event: without data\n\ndata\n\nunknown: x\ndata: 最后\n\n"
)
EVENTS = [
    ServerEvent("", "one"),
    ServerEvent("named", "two\n three"),
    ServerEvent("", ""),
    ServerEvent("", "最后"),
]


def events_of(pieces: list[bytes]) -> list[ServerEvent]:
    decoder = SseDecoder()
    found = [event for piece in pieces for event in decoder.feed(piece)]
    return [*found, *decoder.finish()]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_read_as_the_standard_says_wherever_they_are_cut(end: str) -> None:
    whole = STREAM.replace("\n", end).encode()
    assert events_of([whole]) == EVENTS
    for place in range(len(whole)):
        assert events_of([whole[:place], b"", whole[place:]]) == EVENTS
    assert events_of([bytes([byte]) for byte in whole]) == EVENTS
    assert events_of([whole[: -len(end.encode())]]) == EVENTS  # the last blank line is missing
    assert events_of([whole[: -2 * len(end.encode())]]) == EVENTS  # and its line end


def test_an_event_is_bounded_however_it_comes() -> None:
    for piece in (b"data: " + b"x" * 100, b"x" * 101, b"data: xxxxxx\n" * 9):
        with pytest.raises(ServiceFailure, match="over 100 bytes") as caught:
            list(SseDecoder(100).feed(piece))
        assert caught.value.what == "answer_too_long"
    decoder = SseDecoder(100)
    for _ in range(50):  # many small ones are no large one
        assert list(decoder.feed(b"data: " + b"x" * 80 + b"\n\n")) == [ServerEvent("", "x" * 80)]
    with pytest.raises(ServiceFailure, match="not UTF-8"):
        list(SseDecoder().feed(b"data: \xff\n"))


VALUES: list[Any] = [
    {"type": "item", "content": '}{ "quoted" \\ [ 你好'},
    [],
    {"a": [{"b": "\\"}, "]"], "c": {}},
    {"end": "\u2028\n"},
]


@pytest.mark.parametrize("between", ["", "\n", "\r\n \t"])
def test_values_one_after_the_other_are_read_wherever_they_are_cut(between: str) -> None:
    for ascii_only in (True, False):
        whole = between.join(json.dumps(value, ensure_ascii=ascii_only) for value in VALUES).encode()
        for place in range(len(whole) + 1):
            decoder = JsonSequenceDecoder()
            assert decoder.feed(whole[:place]) + decoder.feed(whole[place:]) == VALUES
            assert decoder.is_between
        decoder = JsonSequenceDecoder()
        assert [value for byte in whole for value in decoder.feed(bytes([byte]))] == VALUES


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(
    values=st.lists(st.dictionaries(st.text(max_size=3), _JSON, max_size=3), max_size=4),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_any_values_in_any_pieces(values: list[Any], sizes: list[int]) -> None:
    rest = "".join(json.dumps(value, ensure_ascii=False) for value in values).encode()
    decoder, found, turn = JsonSequenceDecoder(), [], 0
    while rest:
        size = sizes[turn % len(sizes)]
        found += decoder.feed(rest[:size])
        rest, turn = rest[size:], turn + 1
    assert found == values


def test_what_is_no_sequence_of_values_is_refused() -> None:
    for text in (b"oops", b'{"a": 1} then', b"{]}", b'"text"', b"null", b'{"a": \xff}', b"<html>"):
        decoder = JsonSequenceDecoder()
        with pytest.raises(ServiceFailure, match="not JSON"):
            decoder.feed(text)
    decoder = JsonSequenceDecoder(100)
    assert len(decoder.feed(b'{"a": 1}' * 50)) == 50
    with pytest.raises(ServiceFailure, match="over 100 bytes"):
        decoder.feed(b'{"a": "' + b"x" * 100)
    cut = JsonSequenceDecoder()
    cut.feed(b'{"a": 1} {"b"')
    assert not cut.is_between


def test_a_long_value_in_small_pieces_is_scanned_once() -> None:
    """Quadratic work would take minutes here."""
    piece = b"x" * 64
    decoder, lines = JsonSequenceDecoder(), SseDecoder()
    decoder.feed(b'{"a": "')
    list(lines.feed(b"data: "))
    for _ in range(16_000):
        decoder.feed(piece)
        list(lines.feed(piece))
    assert len(decoder.feed(b'"}')[0]["a"]) == 16_000 * 64
    assert len(next(iter(lines.feed(b"\n\n"))).data) == 16_000 * 64


def test_tags_are_removed_wherever_they_are_cut() -> None:
    text = "<think>a <b></think>\n Yes <thi <think>no</think>!"
    for place in range(len(text)):
        tags = ThinkFilter()
        assert tags.feed(text[:place]) + tags.feed(text[place:]) + tags.finish() == "Yes <thi !"
