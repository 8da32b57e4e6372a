"""What comes in: query, body, path and Last-Event-ID, and the sentence for whatever is wrong with them."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.http.problems import UnsupportedMediaTypeError
from hostler.http.request import check_json_type, decode_json, decode_query, path_segment
from hostler.http.sse import chunks_of, frame, last_event_id
from hostler.journal.feed import StoredResult
from hostler_protocol._base import Strict
from hostler_protocol.errors import HostlerError, InvalidArgumentError


class Query(Strict):
    limit: Annotated[int, msgspec.Meta(ge=1)] = 50
    status: list[str] = []
    thread_id: str | None = None
    since: float | None = None
    role: Literal["user", "assistant"] | None = None
    dry_run: bool = False


class Body(Strict):
    name: str
    inner: Query = Query()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", Query()),
        ("limit=7&dry_run=true", Query(limit=7, dry_run=True)),
        ("status=a&status=b", Query(status=["a", "b"])),
        ("thread_id=", Query(thread_id="")),
        ("thread_id=null", Query(thread_id="null")),
        ("thread_id=a%2Fb%20%C3%A9+c", Query(thread_id="a/b é c")),
    ],
)
def test_queries(text: str, found: Query) -> None:
    assert decode_query(text.encode(), Query) == found


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("limit=0", "limit", ">= 1"),
        ("limit=many", "limit", "a whole number"),
        ("limit=1&limit=2", "limit", "once"),
        ("limt=1", "", "did you mean 'limit'"),
        ("thread_id=%00", "thread_id", "NUL"),
        ("since=null", "since", "leave it out"),
        ("role=Null", "role", "leave it out"),
    ],
)
def test_wrong_queries_name_the_field_and_what_is_expected(text: str, field: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^query: ") as refused:
        decode_query(text.encode(), Query)
    assert words in refused.value.message
    (error,) = refused.value.details["errors"]
    assert error["field"] == field
    assert error["expected"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b'{"name": "\xff"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "expected an object, not a list"),
        (b"{}", "the key 'name' is missing"),
        (b'{"name": 5}', "name: expected a text, not a whole number"),
        (b'{"name": "a", "inner": {"limit": 0}}', "inner.limit"),
        (b'{"name": "a", "inner": {"limti": 1}}', "did you mean 'limit'"),
        (b'{"nam": "a"}', "did you mean 'name'"),
        (b'{"name": "a", "inner": {"limit": "5"}}', "inner.limit"),
    ],
)
def test_wrong_bodies_name_the_field_and_what_is_expected(text: bytes, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        decode_json(text, Body)
    assert words in refused.value.message


def test_all_that_is_wrong_with_a_body_is_named_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^body: 3 mistakes: nam: unknown key") as refused:
        decode_json(b'{"nam": "a", "inner": {"limit": 0}}', Body)
    assert refused.value.details["errors"] == [
        {"field": "nam", "expected": "unknown key; did you mean 'name'?"},
        {"field": "inner.limit", "expected": "expected a whole number >= 1"},
        {"field": "", "expected": "the key 'name' is missing"},
    ]


@given(st.binary(max_size=200))
def test_nothing_but_our_errors_comes_of_any_bytes(data: bytes) -> None:
    attempts: list[Any] = [
        lambda: decode_json(data, Body),
        lambda: decode_query(data, Query),
        lambda: path_segment(data.decode("latin-1")),
        lambda: last_event_id(data.decode("latin-1"), None),
    ]
    for attempt in attempts:
        with contextlib.suppress(HostlerError):
            attempt()


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_any_id_survives_the_path(text: str) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in text.encode())
    assert path_segment(quoted) == text


@pytest.mark.parametrize("text", ["%00", "%FF", "%C3"])
def test_ids_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        path_segment(text)


def test_only_json_is_taken_for_json() -> None:
    for kind in (None, "application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"):
        check_json_type(kind)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        with pytest.raises(UnsupportedMediaTypeError, match="application/json"):
            check_json_type(kind)


@pytest.mark.parametrize(
    ("header", "query", "after"), [(None, None, 0), ("7", None, 7), (None, "9", 9), ("1", "2", 1)]
)
def test_last_event_id(header: str | None, query: str | None, after: int) -> None:
    assert last_event_id(header, query) == after


@pytest.mark.parametrize("text", ["-1", "1.5", "abc", "１", "9" * 17, "0x1", " 1", "9007199254740993"])
def test_a_last_event_id_that_no_event_has_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Last-Event-ID"):
        last_event_id(text, None)


def parse_events(text: bytes) -> list[dict[str, str]]:
    """A reader of event streams as the standard says: CR, LF and CRLF end a line, a blank one an event."""
    events: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    for line in text.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if fields:
                events.append(fields)
            fields = {}
            continue
        name, _, value = line.partition(":")
        fields[name] = value.removeprefix(" ")
    return events


@given(st.text(min_size=1), st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b" "]), max_size=4))
def test_no_result_can_write_fields_of_its_own(result_type: str, blanks: list[bytes]) -> None:
    data = b'{"a":' + b"".join(blanks) + b'"b\\n"}'
    (event,) = parse_events(frame(StoredResult(3, result_type, data)))
    assert set(event) == {"id", "event", "data"}
    assert event["id"] == "3"
    assert msgspec.json.decode(event["data"]) == {"a": "b\n"}


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=30))
def test_pieces_hold_every_event_once_and_stay_small(sizes: list[int]) -> None:
    batch = [
        StoredResult(number, "log", b'{"x":"%s"}' % (b"y" * size))
        for number, size in enumerate(sizes, start=1)
    ]
    chunks = [*chunks_of(batch)]
    whole = b"".join(chunk.body for chunk in chunks)
    assert [int(event["id"]) for event in parse_events(whole)] == [result.sequence for result in batch]
    assert chunks[-1].last == len(batch)
    for chunk in chunks:
        size, _, rest = chunk.framed.partition(b"\r\n")
        assert int(size, 16) == len(chunk.body)
        assert rest == chunk.body + b"\r\n"
        assert len(chunk.body) <= 64 * 1024 + 101_000
