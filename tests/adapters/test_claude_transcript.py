"""The conversation of an agent of the Claude Agent SDK: what is kept, and what its program reads."""

from __future__ import annotations

from typing import Any

from hostler_adapters.claude_transcript import Transcript, begins_turn, entries_of, message_of, user_content
from hostler_adapters.conversation import Turn

CALL: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "pay", "input": {}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "done"}


def test_blocks_of_one_answer_are_one_message_and_results_of_one_round_too() -> None:
    transcript = Transcript([{"role": "user", "content": "before"}])
    transcript.ask("pay twice")
    transcript.answer("m1", [text("Well,")])
    transcript.answer("m1", [CALL])
    transcript.answer("m1", [CALL | {"id": "c2"}])
    transcript.result(result("c1"))
    transcript.steer("and quickly")
    transcript.result(result("c2"))
    transcript.answer("m2", [])  # thoughts alone, which are not kept
    transcript.answer("m2", [text("Paid.")])
    assert transcript.messages == [
        {"role": "user", "content": "before"},
        {"role": "user", "content": "pay twice"},
        {"role": "assistant", "content": [text("Well,"), CALL, CALL | {"id": "c2"}]},
        {"role": "user", "content": [result("c1"), result("c2")]},
        {"role": "user", "content": "and quickly"},
        {"role": "assistant", "content": [text("Paid.")]},
    ]
    assert [begins_turn(one) for one in transcript.messages] == [True, True, False, False, True, False]


def test_entries_follow_from_the_messages_alone() -> None:
    messages = [{"role": "user", "content": "hi"}, message_of(Turn("assistant", "hello"))]
    first, second = entries_of(messages, "session", 5.0, "/work")
    assert [first, second] == entries_of(messages, "session", 5.0, "/work")
    assert (first["parentUuid"], second["parentUuid"]) == (None, first["uuid"])
    assert first["timestamp"] == "1970-01-01T00:00:05.000Z"
    assert first["message"] == {"role": "user", "content": "hi"}
    assert second["message"]["content"] == [text("hello")]
    assert entries_of(messages, "other", 5.0, "/work")[0]["uuid"] != first["uuid"]


def test_pictures_are_blocks() -> None:
    assert user_content([Turn("user", "hi")]) == "hi"
    turns = [Turn("user", "see", ["data:image/gif;base64,AA==", "https://e/a.png"]), Turn("user", "and")]
    assert user_content(turns) == [
        text("see"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA=="}},
        {"type": "image", "source": {"type": "url", "url": "https://e/a.png"}},
        text("and"),
    ]
