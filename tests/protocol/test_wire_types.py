"""Every type that crosses the wire: what it takes, what it refuses, and that it comes back whole."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler_protocol import CALLS, METHODS, AgentRunnerManifest, PluginIdentity
from hostler_protocol.channels import ChannelManifest
from hostler_protocol.content import Content, ModelMessage, text_of
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import AgentRunContext, EventEnvelope
from hostler_protocol.ids import canonical_json, digest, new_id, split_runner_id
from hostler_protocol.limits import MAX_INTEGER, MAX_LOG_CHARS
from hostler_protocol.manifest import Capabilities, FormItem, Permissions, defaults_of
from hostler_protocol.pausing import Continuation, Decision, PendingCall
from hostler_protocol.results import (
    LOOSE_RESULTS,
    RESULT_TYPES,
    TYPE_OF,
    RunCompleted,
    decode_data,
    result_of,
)
from hostler_protocol.runs import RunRecord
from hostler_protocol.schema import wire_types
from support.samples import sample, values

TYPES = wire_types()
STRICT = [
    *(call.reply for call in CALLS.values() if call.reply is not Decision),
    *(kind for name, kind in RESULT_TYPES.items() if not name.startswith("tool.call")),
    AgentRunnerManifest,
    ChannelManifest,
    Capabilities,
    Permissions,
    FormItem,
    PluginIdentity,
    PendingCall,
    EventEnvelope,
]
LENIENT = [
    *(method.params for method in METHODS.values()),
    AgentRunContext,
    Continuation,
    Decision,
    RESULT_TYPES["tool.call.started"],
    RESULT_TYPES["tool.call.completed"],
]


def names(kinds: list[Any]) -> list[str]:
    return [str(getattr(kind, "__name__", kind)) for kind in kinds]


@pytest.mark.parametrize("kind", TYPES, ids=names(TYPES))
def test_every_value_comes_back_as_it_was(kind: Any) -> None:
    @given(values(kind))
    @settings(deadline=None, max_examples=25)
    def comes_back(value: Any) -> None:
        data = msgspec.json.encode(value)
        again = msgspec.json.decode(data, type=kind)
        assert msgspec.json.encode(again) == data
        assert type(again) is type(value)

    comes_back()


@pytest.mark.parametrize("kind", STRICT, ids=names(STRICT))
def test_strict_types_refuse_unknown_keys_by_name(kind: Any) -> None:
    value = _plain(kind)
    with pytest.raises(msgspec.ValidationError, match="surprise"):
        msgspec.json.decode(msgspec.json.encode(value | {"surprise": 1}), type=kind)


@pytest.mark.parametrize("kind", LENIENT, ids=names(LENIENT))
def test_lenient_types_ignore_unknown_keys(kind: Any) -> None:
    plain = _plain(kind)
    with_surprise = msgspec.json.decode(msgspec.json.encode(plain | {"surprise": {"x": [1]}}), type=kind)
    assert msgspec.json.encode(with_surprise) == msgspec.json.encode(
        msgspec.json.decode(msgspec.json.encode(plain), type=kind)
    )


def _plain(kind: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(sample(kind)))
    return plain


def test_the_lists_above_leave_no_type_out() -> None:
    replies = {method.reply for method in METHODS.values() if method.reply is not None}
    covered = [*STRICT, *LENIENT, *replies]
    chunks = [call.chunk for call in CALLS.values() if call.chunk is not None]
    assert [kind for kind in TYPES if kind not in covered and kind not in chunks] == [
        kind for kind in TYPES if getattr(kind, "__name__", "") == "Fault"
    ]


# -- results --------------------------------------------------------------------------------------

EXAMPLES: list[tuple[str, dict[str, Any]]] = [
    ("message.delta", {"chunk": {"role": "assistant", "content": "Hel", "message_id": "m1"}}),
    ("message.delta", {"chunk": {"role": "assistant", "content": [{"type": "text", "text": "lo"}]}}),
    ("message.completed", {"message": {"role": "assistant", "content": "Hello"}}),
    (
        "message.completed",
        {
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                    {"type": "image_base64", "image_base64": "aGk="},
                    {"type": "file_url", "file_url": "https://example.org/a", "file_name": "a"},
                    {"type": "file_base64", "file_base64": "aGk=", "file_name": "b"},
                    {"type": "artifact", "artifact_id": "a1"},
                ],
                "artifact_refs": [{"artifact_id": "a1"}],
            }
        },
    ),
    ("tool.call.started", {"tool_call_id": "t1", "tool_name": "add", "parameters": {"a": 1}, "more": 1}),
    ("tool.call.completed", {"tool_call_id": "t1", "tool_name": "add", "result": 3}),
    ("tool.call.completed", {"tool_call_id": "t1", "tool_name": "add", "error": "boom"}),
    ("tool.call.started", {"tool_name": "add"}),
    ("tool.call.completed", {}),
    (
        "artifact.created",
        {"artifact_type": "file", "name": "a.txt", "content_base64": "aGk=", "size_bytes": 2},
    ),
    ("state.updated", {"scope": "actor", "key": "name", "value": None}),
    ("action.requested", {"action": "pin", "target": {"message": 1}, "payload": {}}),
    ("interaction.requested", {"call_id": "c1", "kind": "confirmation", "title": "Sure?"}),
    ("log", {"level": "info", "text": "x" * MAX_LOG_CHARS}),
    (
        "run.paused",
        {
            "pending": [
                {
                    "tool_name": "pay",
                    "arguments": {"eur": 5},
                    "kind": "approval",
                    "title": "",
                    "editable": False,
                }
            ],
            "state": {"step": 2},
        },
    ),
    ("attempt.started", {"attempt": 2, "cause": "recovered", "discard_after": 7}),
    ("run.completed", {"finish_reason": "stop"}),
    ("run.completed", {}),
    ("run.failed", {"code": "runner.error", "error": "ValueError: x", "retryable": False}),
]

REFUSED: list[tuple[str, Any, str]] = [
    ("message.delta", {}, "chunk"),
    ("message.delta", {"chunk": {"role": "robot", "content": ""}}, r"\$\.chunk\.role"),
    ("message.delta", {"chunk": {"role": "assistant", "content": 5}}, r"\$\.chunk\.content"),
    ("message.completed", {"message": {"role": "assistant"}}, "content"),
    ("message.completed", {"message": {"role": "assistant", "content": [{"type": "video"}]}}, "video"),
    ("message.completed", {"message": {"role": "assistant", "content": [{"type": "text"}]}}, "text"),
    ("tool.call.started", ["add"], "object"),
    ("tool.call.completed", None, "object"),
    ("artifact.created", {"artifact_type": "file", "size_bytes": -1}, r"size_bytes"),
    ("artifact.created", {"artifact_type": "file", "path": "/etc/passwd"}, "path"),
    ("state.updated", {"scope": "actor", "key": "name"}, "value"),
    ("state.updated", {"scope": 1, "key": "name", "value": 1}, r"\$\.scope"),
    ("log", {"level": "loud", "text": ""}, "loud"),
    ("log", {"level": "info", "text": "x" * (MAX_LOG_CHARS + 1)}, f"at most {MAX_LOG_CHARS}"),
    ("run.paused", {"pending": [{"tool_name": "pay", "arguments": {}, "kind": "later"}]}, "later"),
    ("attempt.started", {"attempt": -1, "cause": "", "discard_after": 0}, "attempt"),
    ("run.failed", {"code": "x"}, "error"),
    ("run.completed", [], "object"),
    ("run.completed", None, "object"),
    ("confetti", {}, "message.delta"),
]


@pytest.mark.parametrize("name", ["tool.call.started", "tool.call.completed"])
def test_tool_telemetry_is_taken_with_whatever_values_its_fields_have(name: str) -> None:
    decoded = decode_data(name, b'{"tool_call_id":7,"tool_name":["add"],"parameters":null,"other":{}}')
    assert decoded == RESULT_TYPES[name]()  # type: ignore[call-arg]
    named = decode_data(name, b'{"tool_call_id":{},"tool_name":"add"}')
    assert named.tool_name == "add"  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "data"), EXAMPLES)
def test_every_result_type_has_an_example(name: str, data: dict[str, Any]) -> None:
    decoded = decode_data(name, msgspec.json.encode(data))
    assert TYPE_OF[type(decoded)] == name
    envelope = result_of("r1", 1, decoded)
    assert envelope.type == name
    again = msgspec.json.decode(envelope.data)
    assert {key: value for key, value in again.items() if key in data} == {
        key: value for key, value in data.items() if key in again
    }
    assert decode_data(name, envelope.data) == decoded


def test_no_result_type_is_without_an_example() -> None:
    assert {name for name, _ in EXAMPLES} == set(RESULT_TYPES)


@pytest.mark.parametrize(("name", "data", "words"), REFUSED)
def test_a_bad_payload_is_refused_with_field_and_reason(name: str, data: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        decode_data(name, msgspec.json.encode(data))
    assert name in caught.value.message


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'{"level":"info","text":"\xff"}', b"[" * 100_000, b'{"x":' * 9_999]
)
def test_noise_is_no_payload(data: bytes) -> None:
    for name in RESULT_TYPES:
        if name in LOOSE_RESULTS and data.startswith(b'{"level"'):
            continue  # what it does not know is not looked at; the host refuses text that is no UTF-8
        with pytest.raises(InvalidArgumentError):
            decode_data(name, data)


# -- single facts ---------------------------------------------------------------------------------


def test_only_what_is_unknown_is_left_out() -> None:
    assert msgspec.json.encode(result_of("r1", 1, RunCompleted())) == (
        b'{"run_id":"r1","type":"run.completed","sequence":1,"data":{"finish_reason":"stop"}}'
    )


@pytest.mark.parametrize("number", [-1, MAX_INTEGER + 1, 2**70, 1.5, True, "1"])
def test_counts_are_whole_numbers_every_store_can_hold(number: object) -> None:
    for kind, field in (
        (RESULT_TYPES["artifact.created"], "size_bytes"),
        (CALLS["history.page"].params, "limit"),
    ):
        plain = _plain(kind) | {field: number}
        with pytest.raises(msgspec.ValidationError, match=field):
            msgspec.json.decode(msgspec.json.encode(plain), type=kind)


@pytest.mark.parametrize("part", ["", "a/b", "-a", ".a", "a b", "a\n", "ä", "a" * 101, "a\u0000"])
def test_author_and_name_are_of_a_form_that_joins_safely(part: str) -> None:
    for given_names in ({"author": part, "name": "n"}, {"author": "a", "name": part}):
        with pytest.raises(msgspec.ValidationError, match="not a plugin author or name"):
            msgspec.convert(given_names, PluginIdentity)
    with pytest.raises(ValueError, match="expected plugin:author/name/runner"):
        split_runner_id(f"plugin:acme/{part}/default")


@given(values(PluginIdentity), st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True))
@settings(deadline=None)
def test_a_runner_id_splits_into_what_it_was_made_of(identity: PluginIdentity, runner: str) -> None:
    assert split_runner_id(identity.runner_id(runner)) == (identity.key, runner)


@pytest.mark.parametrize(
    "text", ["", "acme/echo/default", "plugin:acme/echo", "plugin:a/b/c/d", "tool:a/b/c"]
)
def test_other_forms_are_no_runner_id(text: str) -> None:
    with pytest.raises(ValueError, match="expected plugin:author/name/runner"):
        split_runner_id(text)


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=3).map(dict))
@settings(deadline=None)
def test_a_digest_depends_on_the_value_and_not_on_the_order_of_its_keys(value: dict[str, str]) -> None:
    turned = dict(reversed(value.items()))
    assert (canonical_json(turned), digest(turned)) == (canonical_json(value), digest(value))
    assert digest(value) != digest(value | {"one": "more...."})
    assert digest(["a", "b"]) != digest(["ab"]) != digest(["a\u0000b"])


def test_ids_are_uuids_that_rise_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({new_id() for _ in range(1_000)}) == 1_000
    moments = [
        0,
        1_000_000 - 1,
        1_000_000,
        1_700_000_000_123_456_789,
        1_700_000_000_123_999_999,
        2**48 * 10**6 - 1,
    ]
    made = []
    for moment in moments:
        monkeypatch.setattr("time.time_ns", lambda moment=moment: moment)
        made += [uuid.UUID(text := new_id()), uuid.UUID(new_id())]
        assert (len(text), text) == (36, text.lower())
        assert made[-1].int >> 80 == moment // 1_000_000
        assert made[-1] != made[-2], "in the same moment"
    assert {(one.version, one.variant) for one in made} == {(7, uuid.RFC_4122)}
    assert [one.int >> 64 for one in made] == sorted(one.int >> 64 for one in made)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("hi", "hi"),
        ([], ""),
        (
            [
                {"type": "text", "text": "a"},
                {"type": "artifact", "artifact_id": "x"},
                {"type": "text", "text": "b"},
            ],
            "a\nb",
        ),
    ],
)
def test_the_text_of_content(content: Any, text: str) -> None:
    assert text_of(None if content is None else msgspec.convert(content, Content)) == text
    assert msgspec.convert({"role": "user", "content": content}, ModelMessage).role == "user"


def test_a_form_gives_its_defaults_and_knows_its_aliases() -> None:
    form = msgspec.convert(
        [
            {"name": "model", "type": "select-llm-model"},
            {"name": "top", "type": "integer", "default": 0},
            {"name": "kb", "type": "select-knowledge-bases", "default": ["k"]},
        ],
        list[FormItem],
    )
    assert defaults_of(form) == {"top": 0, "kb": ["k"]}
    assert [item.kind for item in form] == ["llm-model-selector", "integer", "knowledge-base-multi-selector"]


def test_a_run_record_names_its_status_from_a_closed_set() -> None:
    plain = _plain(RunRecord) | {"status": "sleeping"}
    with pytest.raises(msgspec.ValidationError, match="sleeping"):
        msgspec.convert(plain, RunRecord)
