"""From an envelope to an event: identity, limits, inline content."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.events import Caller, Event
from hostler.domain.ingest import (
    MAX_ATTACHMENTS,
    MAX_CONTENT_ELEMENTS,
    MAX_EVENT_DATA_BYTES,
    MAX_ID_CHARS,
    InlineContent,
    artifact_refs_of,
    event_of,
)
from hostler_protocol.content import ArtifactElement, ArtifactRef, TextElement
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, UnauthorizedError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.limits import MAX_INLINE_BASE64_BYTES, MAX_INPUT_TEXT_BYTES

CALLER = Caller(workspace_id="w1", subject="ada", key_id="k1")
NOW = 1_700_000_000_000
FROM = {"source": "chat", "bot_id": "b", "launcher_type": "group", "launcher_id": "g", "sender_id": "s"}


def taken(**fields: Any) -> tuple[Event, list[InlineContent]]:
    given_ = {"event_type": "message.received", "input": {"text": "hello"}, **fields}
    return event_of(msgspec.convert(given_, EventEnvelope), CALLER, NOW)


def event(**fields: Any) -> Event:
    return taken(**fields)[0]


# -- identity -----------------------------------------------------------------------------------------


def test_an_event_keeps_its_id_and_belongs_to_the_workspace_of_its_key() -> None:
    made = event(event_id="e1")
    assert (made.event_id, made.workspace_id, made.requester, made.created_at) == ("e1", "w1", "ada", NOW)
    assert made.envelope.workspace_id == "w1"
    assert event(event_id="e1", workspace_id="w1").workspace_id == "w1"
    with pytest.raises(UnauthorizedError, match="'w1'"):
        event(workspace_id="w2")


def test_the_same_delivery_has_the_same_id_and_any_other_another() -> None:
    base = {**FROM, "source_event_id": "m1", "event_time": 5.0}
    known = event(**base).event_id
    assert known.startswith("evt-")
    assert event(**base, input={"text": "edited since"}).event_id == known
    others = [
        event(**{**base, name: value}).event_id
        for name, value in {
            "source": "mail",
            "bot_id": "b2",
            "launcher_type": "person",
            "launcher_id": "g2",
            "sender_id": "s2",
            "source_event_id": "m2",
            "event_time": 6.0,
        }.items()
    ]
    assert len({known, *others}) == 8


@given(st.lists(st.text(min_size=1, max_size=6), min_size=4, max_size=4), st.permutations(range(4)))
def test_no_two_places_are_taken_for_one(parts: list[str], order: list[int]) -> None:
    names = ["bot_id", "launcher_id", "sender_id", "source_event_id"]
    cleaned = [part.replace("\x00", "0") for part in parts]
    one = dict(zip(names, cleaned, strict=True))
    other = dict(zip(names, [cleaned[i] for i in order], strict=True))
    assert (event(**one).event_id == event(**other).event_id) == (one == other)


def test_where_nothing_identifies_a_delivery_each_is_a_new_event() -> None:
    assert len({event(**FROM).event_id for _ in range(3)}) == 3


def test_the_digest_tells_another_body_from_the_same_one() -> None:
    one, same = event(event_id="e", data={"a": 1, "b": 2}), event(event_id="e", data={"b": 2, "a": 1})
    assert one.request_digest == same.request_digest
    assert event(event_id="e", data={"a": 1, "b": 3}).request_digest != one.request_digest


# -- text ---------------------------------------------------------------------------------------------


def test_text_and_contents_stand_for_each_other() -> None:
    assert event().envelope.input.contents == [TextElement(text="hello")]
    parts = [{"type": "text", "text": "hello "}, {"type": "text", "text": "you"}]
    assert event(input={"contents": parts}).envelope.input.text is not None
    assert event(event_type="user.joined", input={}).envelope.input.contents == []
    with pytest.raises(InvalidArgumentError, match="input is empty"):
        event(input={})


# -- inline content -----------------------------------------------------------------------------------


def test_inline_base64_becomes_an_artifact_of_the_event() -> None:
    data = bytes(range(256))
    encoded = base64.b64encode(data).decode()
    lines = "\n".join(encoded[at : at + 76] for at in range(0, len(encoded), 76))
    contents = [
        {"type": "text", "text": "look"},
        {"type": "image_base64", "image_base64": f"data:image/png;base64,{encoded}"},
        {"type": "file_base64", "file_base64": lines, "file_name": "a.bin", "mime_type": "x/y"},
    ]
    made, inline = taken(input={"contents": contents})
    assert made.content_redacted
    assert [(c.kind, c.data, c.mime_type, c.name) for c in inline] == [
        ("image_base64", data, "image/png", None),
        ("file_base64", data, "x/y", "a.bin"),
    ]
    kept = made.envelope.input.contents
    assert [type(element) for element in kept] == [TextElement, ArtifactElement, ArtifactElement]
    assert encoded not in msgspec.json.encode(made.envelope).decode()
    assert [ref.artifact_id for ref in artifact_refs_of(made.envelope)] == [c.artifact_id for c in inline]


def test_what_is_not_base64_is_refused_with_its_place() -> None:
    contents = [{"type": "text", "text": "x"}, {"type": "file_base64", "file_base64": "not base64!"}]
    with pytest.raises(InvalidArgumentError, match=r"input\.contents\[1\]\.file_base64"):
        event(input={"contents": contents})


def test_each_artifact_is_named_once() -> None:
    element = {"type": "artifact", "artifact_id": "a1", "size_bytes": 5}
    made = event(input={"contents": [element], "attachments": [{"artifact_id": "a1"}, {"artifact_id": "a2"}]})
    assert [ref.artifact_id for ref in artifact_refs_of(made.envelope)] == ["a1", "a2"]


# -- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["event_id", "conversation_id", "thread_id", "bot_id", "agent", "sender_id"])
def test_ids_have_bounds(name: str) -> None:
    event(**{name: "x" * MAX_ID_CHARS})
    for value, why in (("", "empty"), ("a\x00b", "NUL"), ("x" * (MAX_ID_CHARS + 1), "characters")):
        with pytest.raises(InvalidArgumentError, match=why) as refused:
            event(**{name: value})
        assert name in refused.value.message


@pytest.mark.parametrize("kind", ["", ".", "a.", ".a", "a..b"])
def test_event_types_are_dotted_names(kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match="event_type"):
        event(event_type=kind)


@pytest.mark.parametrize("when", [253_402_300_800.0, 1e300, 1.7976931348623157e308, -1e12, float("nan")])
def test_the_time_of_an_event_is_one_of_a_calendar(when: float) -> None:
    assert event(event_time=-62_135_596_800.0).envelope.event_time == -62_135_596_800
    with pytest.raises(InvalidArgumentError, match="expected UTC epoch seconds"):
        event(event_time=when)


def test_sizes_have_bounds() -> None:
    event(input={"text": "x" * MAX_INPUT_TEXT_BYTES})
    half = {"type": "text", "text": "x" * (MAX_INPUT_TEXT_BYTES // 2 + 1)}
    too_large: list[tuple[str, dict[str, Any]]] = [
        ("text has", {"input": {"text": "ü" * (MAX_INPUT_TEXT_BYTES // 2 + 1)}}),
        ("text has", {"input": {"contents": [half, half]}}),
        ("elements", {"input": {"contents": [{"type": "text", "text": ""}] * (MAX_CONTENT_ELEMENTS + 1)}}),
        (
            "attachments",
            {"input": {"text": "x", "attachments": [{"artifact_id": "a"}] * (MAX_ATTACHMENTS + 1)}},
        ),
        (
            "upload larger",
            {
                "input": {
                    "contents": [{"type": "file_base64", "file_base64": "A" * (MAX_INLINE_BASE64_BYTES + 4)}]
                }
            },
        ),
        ("data, metadata", {"data": {"a": "x" * MAX_EVENT_DATA_BYTES}}),
        ("data, metadata", {"metadata": {"a": "x" * MAX_EVENT_DATA_BYTES}}),
    ]
    for why, fields in too_large:
        with pytest.raises(PayloadTooLargeError, match=why):
            event(**fields)


def test_json_as_deep_as_no_reader_goes_is_refused() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    with pytest.raises(InvalidArgumentError, match="data"):
        event(data=deep)


def test_a_name_for_people_may_be_long_but_not_endless() -> None:
    actor = {"actor_type": "user", "actor_id": "u", "actor_name": "x" * 1001}
    with pytest.raises(InvalidArgumentError, match="actor_name"):
        event(actor=actor)


def test_refs_of_attachments_are_kept_as_they_came() -> None:
    made = event(input={"text": "x", "attachments": [{"artifact_id": "a", "name": "n"}]})
    assert artifact_refs_of(made.envelope) == [ArtifactRef(artifact_id="a", name="n")]
