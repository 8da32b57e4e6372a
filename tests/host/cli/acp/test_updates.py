"""The updates of a run: of superseded attempts, of ids used again, of texts that only look like a plan."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.cli.acp.updates import RunUpdates, kind_of, outcome_text, session_title, title_of
from hostler.journal.feed import StoredResult


def shown(*results: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What an editor is shown of results; `Completed` and the like by their names."""
    updates = RunUpdates("r1")
    found: list[dict[str, Any]] = []
    for sequence, (kind, data) in enumerate(results, start=1):
        raw = msgspec.json.encode({"run_id": "r1", "type": kind, "sequence": sequence, "data": data})
        for one in updates.take(StoredResult(sequence, kind, raw)):
            if hasattr(one, "model_dump"):
                found.append(one.model_dump(mode="json", by_alias=True, exclude_none=True))
            else:
                found.append({"sessionUpdate": type(one).__name__})
    return found


def piece(text: str, message_id: str | None = None) -> tuple[str, dict[str, Any]]:
    return "message.delta", {"chunk": {"role": "assistant", "content": text, "message_id": message_id}}


def whole(text: str, message_id: str | None = None) -> tuple[str, dict[str, Any]]:
    return "message.completed", {"message": {"role": "assistant", "content": text, "message_id": message_id}}


def attempt(number: int, discard_after: int) -> tuple[str, dict[str, Any]]:
    data = {"attempt": number, "cause": "recovery", "discard_after": discard_after}
    return "attempt.started", data


def texts(updates: list[dict[str, Any]]) -> list[str]:
    return [f"{one['sessionUpdate'][6:7]} {one['content']['text']}" for one in updates if "content" in one]


def test_an_attempt_that_repeats_what_was_shown_goes_on() -> None:
    found = shown(piece("Hel"), piece("lo"), attempt(2, 0), piece("Hel"), piece("lo you"), whole("Hello you"))
    assert texts(found) == ["m Hel", "m lo", "m  you"]


def test_another_text_begins_anew_and_says_so() -> None:
    found = shown(piece("Hello"), attempt(2, 0), piece("Good day"), whole("Good day"))
    assert texts(found) == [
        "m Hello", "t The answer was interrupted here. What follows is a new one.", "m Good day",
    ]  # fmt: skip
    assert len({one.get("messageId") for one in found if one["sessionUpdate"] == "agent_message_chunk"}) == 2


def test_messages_are_set_apart_where_nothing_else_is_between_them() -> None:
    assert texts(shown(whole("one"), whole("two"))) == ["m one", "m \n\ntwo"]
    between = ("log", {"level": "info", "text": "x"})
    assert texts(shown(whole("one"), between, whole("two"))) == ["m one", "t x\n\n", "m two"]


def test_a_call_of_a_lost_attempt_is_closed() -> None:
    call = ("tool.call.started", {"tool_call_id": "c", "tool_name": "t", "parameters": {}})
    found = shown(call, attempt(2, 0), ("run.completed", {}))
    assert [(one["sessionUpdate"], one.get("status")) for one in found] == [
        ("tool_call", "in_progress"), ("tool_call_update", "failed"), ("Completed", None),
    ]  # fmt: skip
    assert found[0]["toolCallId"] == found[1]["toolCallId"] == "r1/c"


def test_a_plan_is_one_only_in_its_form() -> None:
    (plan,) = shown(("log", {"level": "info", "text": "plan of the agent:\n[x] a\n[>] b\n[ ] c"}))
    assert [entry["content"] for entry in plan["entries"]] == ["a", "b", "c"]
    (text,) = shown(("log", {"level": "info", "text": "plan of the agent:\nwhatever"}))
    assert text["sessionUpdate"] == "agent_thought_chunk"
    assert shown(("log", {"level": "debug", "text": "x"}), ("log", {"level": "error", "text": "x"})) == []
    assert shown(("of.tomorrow", {"x": 1})) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("files.read", "read"), ("editor_write_file", "edit"), ("exec", "execute"),
        ("acp.execute", "execute"), ("web.search", "search"), ("fetch", "fetch"),
        ("shop.book", "other"), ("", "other"), ("文件", "other"),
    ],
)  # fmt: skip
def test_kinds_of_tools(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_titles_and_outcomes_are_bounded() -> None:
    assert title_of("files.read", {"path": "a\nb" * 500}).startswith("files.read a ba ba")
    assert len(title_of("files.read", {"path": "a" * 5000})) == 200
    assert title_of("acp.execute", {"title": "make clean", "input": {}}) == "make clean"
    assert title_of("x", [1]) == "x"
    assert title_of("", None) == "tool"
    assert outcome_text("x" * 200_000).endswith("and 100,000 characters more")
    assert outcome_text({"ä": 1}) == '{\n "ä": 1\n}'
    assert len(session_title("wort " * 100)) == 80
