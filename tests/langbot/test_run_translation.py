"""Results of a plugin of LangBot as results of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler_langbot.results import MAX_STREAMED_CHARS, RunTranslation
from hostler_protocol.results import RunFailed, decode_data
from hostler_sdk import Result

RUN = "r1"


def sent(kind: str, data: Any, **fields: Any) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "type": kind,
        "data": data,
        "usage": None,
        "sequence": 1,
        "timestamp": None,
        **fields,
    }


def chunk(content: Any, **fields: Any) -> dict[str, Any]:
    """A delta as the SDK writes it, with all its nulls."""
    whole = {
        "resp_message_id": None,
        "role": "assistant",
        "name": None,
        "all_content": None,
        "content": content,
        "tool_calls": None,
        "tool_call_id": None,
        "is_final": False,
        "msg_sequence": 0,
        "provider_specific_fields": None,
    }
    return sent("message.delta", {"chunk": {**whole, **fields}})


def message(content: Any, **fields: Any) -> dict[str, Any]:
    return sent(
        "message.completed", {"message": {"role": "assistant", "content": content, **fields}, "file_ids": []}
    )


def translated(*items: Any, end: bool = True) -> list[Result]:
    translation = RunTranslation(RUN)
    results = [result for item in items for result in translation.take(item)]
    results += translation.finish() if end else []
    for result in results:  # a host takes each of them
        if isinstance(result.data, dict):
            decode_data(result.type, json.dumps(result.data).encode())
    return results


def shown(results: list[Result]) -> list[str]:
    return [r.data["chunk"]["content"] for r in results if r.type == "message.delta"]  # type: ignore[index]


def said(results: list[Result]) -> list[Any]:
    return [r.data["message"]["content"] for r in results if r.type == "message.completed"]  # type: ignore[index]


def logged(results: list[Result]) -> list[str]:
    return [r.data.text for r in results if r.type == "log"]  # type: ignore[union-attr]


def test_pieces_are_shown_and_completed_at_the_end() -> None:
    results = translated(chunk("Hel"), chunk("lo"), chunk(" you"))
    assert (shown(results), said(results)) == (["Hel", "lo", " you"], ["Hello you"])


def test_whole_texts_are_shown_as_what_is_new() -> None:
    results = translated(chunk("He"), chunk("Hello"), chunk("Hello you"), chunk("Hello you", is_final=True))
    assert (shown(results), said(results)) == (["He", "llo", " you"], ["Hello you"])


def test_a_chance_repetition_does_not_lose_text() -> None:
    results = translated(chunk("1"), chunk("10"), chunk(" apples"))
    assert said(results) == ["110 apples"]


def test_a_whole_text_that_was_replaced_is_completed_as_it_is_last() -> None:
    long = "a rather long beginning"
    results = translated(chunk(long), chunk(f"{long} of it"), chunk("another text"))
    assert (shown(results), said(results)) == ([long, " of it"], ["another text"])


def test_a_chunk_that_states_both_is_understood() -> None:
    results = translated(
        chunk("a", all_content="a"), chunk("a", all_content="aa"), chunk("b", all_content="aab")
    )
    assert (shown(results), said(results)) == (["a", "a", "b"], ["aab"])


@given(st.lists(st.text("ab \n", min_size=1, max_size=4), min_size=1, max_size=12))
def test_pieces_with_their_whole_text_are_never_garbled(pieces: list[str]) -> None:
    items, whole = [], ""
    for piece in pieces:
        whole += piece
        items.append(chunk(piece, all_content=whole))
    results = translated(*items)
    assert ("".join(shown(results)), said(results)) == (whole, [whole])


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=12))
def test_growing_whole_texts_are_never_garbled(pieces: list[str]) -> None:
    items, whole = [], ""
    for piece in pieces:
        whole += piece
        items.append(chunk(whole))
    results = translated(*items)
    assert said(results)[-1] == whole


def test_a_completed_message_takes_the_place_of_what_was_streamed() -> None:
    results = translated(
        chunk("Hel"), chunk("lo"), message("Hello!"), sent("run.completed", {"finish_reason": "stop"})
    )
    assert [r.type for r in results] == [
        "message.delta",
        "message.delta",
        "message.completed",
        "run.completed",
    ]
    assert said(results) == ["Hello!"]


def test_messages_of_several_turns_are_apart() -> None:
    results = translated(
        chunk("Let me look.", resp_message_id="m1"),
        sent("tool.call.started", {"tool_call_id": "t", "tool_name": "look", "parameters": {}}),
        sent(
            "tool.call.completed", {"tool_call_id": "t", "tool_name": "look", "result": None, "error": "no"}
        ),
        chunk("Nothing.", resp_message_id="m2"),
        sent("run.completed", {"finish_reason": "stop"}),
    )
    assert said(results) == ["Let me look.", "Nothing."]
    final = translated(chunk("First.", is_final=True), chunk("Second."))
    assert said(final) == ["First.", "Second."]


def test_the_message_of_the_end_is_not_said_twice() -> None:
    results = translated(
        chunk("Hi"),
        sent("run.completed", {"finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}),
    )
    assert said(results) == []
    assert results[-1].data == {"finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}


def test_a_message_that_only_asks_for_tools_says_nothing() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert translated(message(None, tool_calls=calls), message("")) == []


def test_files_keep_their_place() -> None:
    picture = {
        "type": "image_base64",
        "image_base64": "data:image/png;base64,AA==",
        "text": None,
        "file_name": None,
    }
    results = translated(message([{"type": "text", "text": "See"}, picture]), chunk([picture]))
    one = {"type": "image_base64", "image_base64": "data:image/png;base64,AA=="}
    assert said(results) == [[{"type": "text", "text": "See"}, one], [one]]


def test_a_failure_keeps_code_and_retryable() -> None:
    failure = sent("run.failed", {"error": "no", "code": "dify.timeout", "retryable": True})
    results = translated(chunk("Hel"), failure, message("late"))
    assert results[-1].data == {"error": "no", "code": "dify.timeout", "retryable": True}
    assert said(results) == []


def test_usage_has_the_names_of_the_protocol() -> None:
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": None,
        "prompt_tokens_details": {"cached_tokens": 2},
        "odd": {"x": 1},
        "reasoning_tokens": -1,
    }
    (result,) = translated(sent("run.completed", {}, usage=usage))
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.cached_tokens) == (3, 4, 2)
    assert (result.usage.total_tokens, result.usage.reasoning_tokens) == (None, None)


def test_a_null_value_of_state_is_a_value() -> None:
    (result,) = translated(sent("state.updated", {"scope": "actor", "key": "k", "value": None}))
    assert result.data == {"scope": "actor", "key": "k", "value": None}


def test_logs_go_to_the_journal() -> None:
    assert logged(translated(sent("processor.log", {"text": "x" * 70_000, "level": "shout"}))) == [
        "x" * 65_536
    ]


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("text", "without a type"),
        ({"run_id": RUN, "data": {}}, "without a type"),
        (sent("message.delta", []), "no object"),
        (sent("message.delta", {}), "no chunk"),
        (sent("message.completed", {"message": "x"}), "no object"),
        (chunk([{"type": "hologram"}]), "no content element of the type 'hologram'"),
        (chunk(7), "text or a list"),
        (sent("log", {}, run_id="r2"), "another run"),
        (sent("state.updated", {"scope": "actor", "key": "k", "value": 2**70}), "left out"),
        (sent("puppet.dance", {}), "not known here"),
    ],
)
def test_what_makes_no_sense_is_left_out_and_noted(item: Any, why: str) -> None:
    results = translated(item, message("well"))
    assert said(results) == ["well"]
    (text,) = logged(results)
    assert why in text


def test_unknown_types_are_noted_once_and_not_without_end() -> None:
    items = [sent(f"odd.{number % 40}", {}) for number in range(400)]
    assert len(logged(translated(*items))) == 20


def test_a_streamed_message_has_a_bound() -> None:
    half = "x" * (MAX_STREAMED_CHARS // 2)
    results = translated(chunk(half), chunk(f"y{half}"), end=False)
    assert "characters" in logged(results)[0]


def failure(*items: Any) -> tuple[str, str]:
    end = translated(*items)[-1]
    assert isinstance(end.data, RunFailed)
    return end.data.code, end.data.error


def test_a_run_that_asks_people_fails_with_the_question() -> None:
    def asks(payload: Any, action: str = "interaction.requested") -> dict[str, Any]:
        return sent("action.requested", {"action": action, "payload": payload})

    question = {"interaction_id": "i1", "kind": "confirmation", "title": "Approve?", "fields": []}
    whole = {**question, "fallback_text": "Send it?\nActions: yes, no" + "." * 5_000}
    items = (chunk("a draft", is_final=True), asks(whole), sent("run.completed", {}))
    kinds = [result.type for result in translated(*items)]
    assert kinds == ["message.delta", "message.completed", "run.failed"]
    code, error = failure(*items)
    assert code == "runner.error"
    assert "get no answers here: Send it?\nActions: yes, no." in error
    assert len(error) < 2_200
    assert failure(asks(question))[1].endswith("Approve?")
    assert failure(asks(None))[1].endswith("it has no text")
    assert "\ud800" not in failure(asks({"title": "a\ud800b"}))[1]
    assert [result.type for result in translated(asks({}, "poke"))] == ["action.requested"]
