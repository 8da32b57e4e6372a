"""The framing of LangBot's plugin wire."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler_langbot.framing import (
    CHUNK_BYTES,
    MAX_CHUNKS,
    MAX_MESSAGE_BYTES,
    FrameReader,
    FramingError,
    MessageTooLarge,
    encode,
)


def read(data: bytes, *cuts: int) -> list[dict[str, Any]]:
    """Feed bytes, cut at some places."""
    reader, found = FrameReader(), []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(edges):
        found += list(reader.feed(data[start:end]))
    return found


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=4), st.lists(st.integers(0, 4000), max_size=6), st.integers(0, 40_000))
def test_what_is_encoded_is_read_wherever_it_is_cut(values: list[Any], cuts: list[int], padding: int) -> None:
    messages = [{"seq_id": n, "action": "x", "data": value} for n, value in enumerate(values)]
    messages.append({"seq_id": 99, "action": "y", "data": {"text": '"\\é' * (padding // 3)}})
    data = b"".join(encode(message) for message in messages)
    assert read(data, *(cut % (len(data) + 1) for cut in cuts)) == messages


def test_a_large_message_goes_in_lines_that_the_sdk_can_read_at_once() -> None:
    message = {"seq_id": 1, "action": "x", "data": {"text": '"' * 100_000}}
    lines = encode(message).splitlines()
    assert json.loads(lines[0])["type"] == "chunk_start"
    assert json.loads(lines[-1]) == {"type": "chunk_end"}
    assert max(map(len, lines)) < 64 * 1024
    whole = "".join(json.loads(line)["data"] for line in lines[1:-1])
    assert json.loads(whole) == message
    assert (
        len(encode({"seq_id": 1, "action": "x", "data": {"text": "x" * (CHUNK_BYTES - 100)}}).splitlines())
        == 1
    )


def test_a_message_over_the_limit_is_not_sent() -> None:
    with pytest.raises(MessageTooLarge, match="at most 16,777,216"):
        encode({"data": "x" * MAX_MESSAGE_BYTES})


def test_lines_that_are_no_message_are_ignored_and_counted() -> None:
    reader = FrameReader()
    lines = [
        b"a plugin prints\n",
        b"\n",
        b"[1]\n",
        b'{"type": "looks like one"}\n',
        b"\xff\xfe\n",
        b"{" * 100_000 + b"\n",
        b'{"code": ' + b"1" * 5000 + b"}\n",
    ]
    assert list(reader.feed(b"".join(lines) + b'{"seq_id":1,"code":0}\n')) == [{"seq_id": 1, "code": 0}]
    assert reader.ignored == 6


def test_prints_between_chunks_do_not_break_a_message() -> None:
    lines = encode({"seq_id": 1, "action": "x", "data": {"text": "y" * 40_000}}).splitlines(keepends=True)
    mixed = b"".join(line + b'print\n{"type": "log"}\n' for line in lines)
    (message,) = read(mixed)
    assert message["data"]["text"] == "y" * 40_000


def test_what_json_does_not_have_is_repaired() -> None:
    data = b'{"half": "\\ud83d", "nan": NaN, "list": ["\\uDE00"], "pair": "\\ud83d\\ude00"}'
    (message,) = read(b'{"code": 0, "data": ' + data + b"}\n")
    assert message["data"] == {"half": "?", "nan": None, "list": ["?"], "pair": "😀"}


def chunks(total: Any, *parts: tuple[str, Any]) -> bytes:
    lines = [{"type": "chunk_start", "total_size": total}]
    lines += [{"type": "chunk_data", "data": data, "offset": offset} for data, offset in parts]
    return b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, {"type": "chunk_end"}])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (chunks(MAX_MESSAGE_BYTES + 1), "states the size"),
        (chunks(-1), "states the size"),
        (chunks("5"), "states the size"),
        (chunks(True), "states the size"),
        (chunks(4, ("ab", 1)), "begins at 1, not at 0"),
        (chunks(4, ("ab", 0), ("cd", 0)), "begins at 0, not at 2"),
        (chunks(3, ("ab", 0), ("cd", 2)), "more than the 3 bytes"),
        (chunks(4, ("ab", 0)), "2 of the 4 bytes"),
        (chunks(4, (None, 0)), "has no text"),  # type: ignore[arg-type]
        (b'{"type":"chunk_start","total_size":4}\n' * 2, "within another"),
        (chunks(0, *[("", 0)] * (MAX_CHUNKS + 1)), "over 4,096 chunks"),
    ],
)
def test_broken_chunks_end_the_connection(data: bytes, why: str) -> None:
    with pytest.raises(FramingError, match=why):
        read(data)


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    reader = FrameReader()
    for _ in range(MAX_MESSAGE_BYTES // 2**20):
        assert list(reader.feed(b"x" * 2**20)) == []
    with pytest.raises(FramingError, match="over 16,777,216 bytes"):
        list(reader.feed(b"x"))
