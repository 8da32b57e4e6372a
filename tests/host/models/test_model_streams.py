"""The stream parsers under any cutting of the bytes, and the decisions around a call: all pure."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.models.chat_response import ChatStream, read_answer
from hostler.models.errors import ModelEndpoint
from hostler.models.retry_policy import RetryPolicy, retry_after
from hostler.models.sse import ServerSentEvent, SseError, SseParser
from hostler_protocol.calls import ModelChunk
from hostler_protocol.errors import HostlerError

ENDPOINT = ModelEndpoint("main", "m", "http://x/v1")
TEXT = st.text(max_size=30)
CUTS = st.lists(st.integers(0, 2000), max_size=40)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place for place in at if place < len(data))})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@st.composite
def event_streams(draw: st.DrawFn) -> tuple[bytes, list[ServerSentEvent]]:
    """A stream as bytes, and the events it holds."""
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text, expected = draw(st.sampled_from(["", "\ufeff"])), []
    for _ in range(draw(st.integers(0, 5))):
        lines = draw(st.lists(TEXT.map(lambda t: re.sub(r"[\r\n]", "", t)), min_size=1, max_size=3))
        name = draw(st.sampled_from(["", "ping", "é"]))
        if draw(st.booleans()):
            text += f": keep-alive{end}id: 7{end}retry{end}"
        if name:
            text += f"event: {name}{end}"
        text += "".join(f"data: {line}{end}" for line in lines) + end
        expected.append(ServerSentEvent("\n".join(lines), name or "message"))
    return text.encode(), expected


@given(event_streams(), CUTS)
def test_events_come_out_however_the_bytes_are_cut(
    stream: tuple[bytes, list[ServerSentEvent]], at: list[int]
) -> None:
    data, expected = stream
    parser = SseParser(1_000_000)
    assert [event for part in cut(data, at) for event in parser.receive(part)] == expected


@given(st.binary(max_size=400), CUTS)
def test_noise_gives_the_same_in_one_piece_and_in_many(data: bytes, at: list[int]) -> None:
    def events(parts: list[bytes]) -> list[ServerSentEvent] | str:
        parser = SseParser(1_000_000)
        try:
            return [event for part in parts for event in parser.receive(part)]
        except SseError:
            return "refused"

    assert events(cut(data, at)) == events([data])


@pytest.mark.parametrize("data", [b"data: " + b"x" * 90, b"data: 12345678\n" * 12])
def test_an_event_over_its_bound_is_refused(data: bytes) -> None:
    parser = SseParser(64)
    with pytest.raises(SseError, match="64"):
        list(map(parser.receive, cut(data, list(range(0, len(data), 8)))))


@given(
    pieces=st.lists(st.text(min_size=1, max_size=12), max_size=6),
    arguments=st.lists(st.dictionaries(TEXT, TEXT, max_size=2).map(json.dumps), max_size=3),
    at=CUTS,
)
def test_a_streamed_answer_equals_the_whole_one(
    pieces: list[str], arguments: list[str], at: list[int]
) -> None:
    calls = [{"id": f"c{n}", "function": {"name": f"f{n}", "arguments": a}} for n, a in enumerate(arguments)]
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    whole = {"choices": [{"message": {"content": "".join(pieces), "tool_calls": calls}}], "usage": usage}
    deltas: list[dict[str, object]] = [{"content": piece} for piece in pieces]
    for n, call in enumerate(calls):
        text = arguments[n]
        deltas.append(
            {"tool_calls": [{"index": n, **call, "function": {"name": f"f{n}", "arguments": text[:3]}}]}
        )
        deltas.append({"tool_calls": [{"index": n, "function": {"arguments": text[3:]}}]})
    events = [{"choices": [{"delta": delta}]} for delta in deltas]
    frames = [*(json.dumps(e) for e in events), json.dumps({"choices": [], "usage": usage}), "[DONE]"]
    data = "".join(f"data: {frame}\n\n" for frame in frames).encode()

    stream = ChatStream(ENDPOINT)
    chunks: list[ModelChunk] = [chunk for part in cut(data, at) for chunk in stream.receive(part)]
    assert stream.finish() == read_answer(json.dumps(whole), ENDPOINT)
    assert "".join(str(c.delta.content or "") for c in chunks) == "".join(pieces)
    grown = dict.fromkeys(range(len(calls)), "")
    for chunk in chunks:
        for delta in chunk.delta.tool_calls:
            grown[delta.index] += delta.arguments or ""
    assert list(grown.values()) == arguments


@given(
    st.recursive(
        st.none() | st.integers() | st.booleans() | TEXT,
        lambda v: (
            st.lists(v)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "message", "content", "tool_calls", "usage", "error", "index"]
                ),
                v,
            )
        ),
    )
)
def test_any_json_is_an_answer_or_a_typed_error(value: object) -> None:
    data = json.dumps(value)
    for read in (lambda: read_answer(data, ENDPOINT), lambda: ChatStream(ENDPOINT).take_event(data)):
        with contextlib.suppress(HostlerError):
            read()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": formatdate(1_000_060, usegmt=True)}, 60.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 1_000_000) == seconds


def test_back_off_doubles_within_bounds_and_keeps_to_the_deadline() -> None:
    policy = RetryPolicy(10)

    def pauses(jitter: float, **more: float | None) -> list[float | None]:
        given: dict[str, float | None] = {"retry_after": None, "time_left": None, **more}
        return [
            policy.delay(n, jitter=jitter, retry_after=given["retry_after"], time_left=given["time_left"])
            for n in range(1, 12)
        ]

    assert pauses(1.0) == [0.5, 1, 2, 4, 8, 8, 8, 8, 8, 8, None]
    assert pauses(0.0) == [0.25, 0.5, 1, 2, 4, 4, 4, 4, 4, 4, None]
    assert pauses(0.0, retry_after=20)[:2] == [20, 20]
    assert pauses(0.0, retry_after=31) == [None] * 11
    assert pauses(1.0, time_left=1.5)[:3] == [0.5, 1, None]
