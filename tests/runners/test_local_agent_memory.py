"""local-agent's memory: history within the budget, notes in its place, knowledge, and requests too long."""

from __future__ import annotations

from typing import Any

import pytest
from local_agent.agent import LocalAgent
from local_agent.budget import budget_of
from local_agent.prompt import SUMMARY_HEAD
from local_agent.settings import read_settings

from hostler_protocol.content import ModelMessage, text_of
from hostler_sdk.errors import DeadlineExceeded, InvalidArgument, RuntimeFailure
from hostler_sdk.testing import Driven, ScriptedHost, drive_sync
from support.local_agents import BOTH, CHECKPOINT, MAIN, asked, logs, requests, wish, wishes

SMALL: dict[str, Any] = MAIN | {
    "context-window-tokens": 400,
    "context-reserve-tokens": 100,
    "context-keep-recent-tokens": 60,
    "context-summary-tokens": 30,
}
"""A budget of 300 words, of which 60 are kept as they are."""
OVERFLOW = InvalidArgument("too long for the window", details={"reason": "context_overflow"})


def summarises(messages: list[ModelMessage]) -> bool:
    return text_of(messages[0].content).startswith("You keep the notes")


def words(count: int, word: str = "word") -> str:
    return " ".join([word] * count)


class Scribe:
    """A model that answers, and that numbers the notes it is asked for."""

    def __init__(self) -> None:
        self.asked_for_notes: list[str] = []

    def __call__(self, messages: list[ModelMessage]) -> str:
        if not summarises(messages):
            return f"answer to {text_of(messages[-1].content).split()[0]}"
        self.asked_for_notes.append(text_of(messages[1].content))
        return f"notes {len(self.asked_for_notes)}"


def system(driven: Driven) -> str:
    return text_of(requests(driven)[-1].messages[0].content)


# -- notes ----------------------------------------------------------------------------------------


def test_notes_are_made_where_the_budget_is_crossed_and_only_there() -> None:
    scribe = Scribe()
    history = [("user" if n % 2 == 0 else "assistant", f"m{n} {words(19)}") for n in range(14)]
    host = ScriptedHost(models={"main": scribe}, history=history)
    host.drive_sync(LocalAgent, "short", config=SMALL)  # 280 words and a prompt: just within
    assert scribe.asked_for_notes == []
    crossing = host.drive_sync(LocalAgent, f"long {words(20)}", config=SMALL)
    assert len(scribe.asked_for_notes) == 1
    assert "User: m0" in scribe.asked_for_notes[0]
    kept = [text_of(content).split()[0] for _, content in asked(crossing)]
    assert kept == ["You", "m12", "m13", "short", "answer", "long"]
    assert system(crossing) == f"You are a helpful assistant.\n\n{SUMMARY_HEAD}\nnotes 1"
    found, version = host.world.states["conversation"][CHECKPOINT]
    assert version == 1
    assert found["schema_version"] == 1
    assert found["summary"] == "notes 1"
    assert found["covers_until"] == "c12"
    assert found["conversation_id"] == "conversation"
    assert found["tokens_before"] > 300
    # what follows stands on the notes, and reads only what came after them
    later = host.drive_sync(LocalAgent, "later", config=SMALL)
    assert len(scribe.asked_for_notes) == 1
    assert system(later).endswith("notes 1")
    (page,) = [call.params for call in later.calls if call.method == "history.page"]
    assert page.after_cursor == "c12"


def test_notes_go_on_from_the_notes_before() -> None:
    scribe = Scribe()
    host = ScriptedHost(models={"main": scribe})
    for turn in range(60):
        host.drive_sync(LocalAgent, f"q{turn} {words(18)}", config=SMALL)
    told = scribe.asked_for_notes
    assert 3 <= len(told) <= 10
    assert not told[0].startswith("Your notes so far")
    for number, text in enumerate(told[1:], 1):
        assert text.startswith(f"Your notes so far:\nnotes {number}\n")
    seen = [line.split()[1] for text in told for line in text.split("\n") if line.startswith("User: ")]
    assert seen == [f"q{n}" for n in range(len(seen))]  # each message once, in its order


def test_what_follows_the_notes_may_take_many_pages() -> None:
    scribe = Scribe()
    host = ScriptedHost(models={"main": scribe})
    for turn in range(40):
        driven = host.drive_sync(
            LocalAgent, f"q{turn} {words(18)}", config=SMALL | {"context-history-fetch-limit": 3}
        )
        assert logs(driven) == ""
        seen = [text_of(c).split()[0] for role, c in asked(driven) if role == "user"]
        assert seen == [f"q{n}" for n in range(turn + 1)][-len(seen) :]
    assert len(scribe.asked_for_notes) >= 2


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {"schema_version": 2, "summary": "of another kind"},
        {"summary": "without a version"},
        {"covers_until": "c2", "conversation_id": "another"},
        {"covers_until": "dead", "conversation_id": "conversation"},
        {"covers_until": "c2", "conversation_id": "conversation", "summary": ""},
    ],
)
def test_a_checkpoint_that_is_of_no_use_leaves_the_tail(value: Any) -> None:
    whole = {"schema_version": 1, "summary": "old", "tokens_before": 1, "created_at": 1.0}
    if isinstance(value, dict) and "schema_version" not in value and "covers_until" in value:
        value = whole | value
    host = ScriptedHost(models={"main": "ok"}, history=["one", "two", "three", "four"])
    if value is not None:
        host.world.set_state("conversation", CHECKPOINT, value)
    driven = host.drive_sync(LocalAgent, "five", config=MAIN)
    assert [content for _, content in asked(driven)[1:]] == ["one", "two", "three", "four", "five"]
    assert system(driven) == "You are a helpful assistant."


def test_what_gathered_while_no_notes_could_be_made_is_told_later_without_a_gap() -> None:
    """Notes reach on from where they ended, one piece a turn, until they have caught up."""
    told: list[str] = []
    broken = True

    def script(messages: list[ModelMessage]) -> Any:
        if not summarises(messages):
            return f"answer {words(19)}"
        if broken:
            return RuntimeFailure("cannot")
        told.append(text_of(messages[1].content))
        return f"notes {len(told)}"

    host = ScriptedHost(models={"main": script})

    def turn(number: int) -> Driven:
        before = len(told)
        driven = host.drive_sync(LocalAgent, f"q{number} {words(18)}", config=SMALL)
        assert driven.status == "completed"
        assert len(told) <= before + 1
        assert sum(len(text_of(m.content).split()) for m in requests(driven)[-1].messages) <= 300
        return driven

    for number in range(40):
        turn(number)
    assert CHECKPOINT not in host.world.states["conversation"]
    broken = False
    for number in range(40, 60):
        turn(number)
    seen = [line.split()[1] for text in told for line in text.split("\n") if line.startswith("User: ")]
    assert seen == [f"q{n}" for n in range(len(seen))]
    assert len(seen) > 50  # caught up: the rest is in the window
    last = turn(60)
    asked_now = [text_of(c).split()[0] for role, c in asked(last) if role == "user"]
    assert asked_now[0] == f"q{len(seen)}" or asked_now == [f"q{n}" for n in range(len(seen), 61)]


def test_where_no_notes_can_be_made_the_oldest_messages_are_left_out() -> None:
    def script(messages: list[ModelMessage]) -> Any:
        return RuntimeFailure("cannot") if summarises(messages) else "ok"

    host = ScriptedHost(models={"main": script}, history=[f"m{n} {words(29)}" for n in range(20)])
    driven = host.drive_sync(LocalAgent, "go", config=SMALL)
    assert driven.text == "ok"
    assert "no summary: cannot" in logs(driven)
    kept = [text_of(content).split()[0] for _, content in asked(driven)[1:]]
    assert kept == [*(f"m{n}" for n in range(12, 20)), "go"]
    assert CHECKPOINT not in host.world.states["conversation"]


def test_notes_are_of_another_model_where_the_first_is_dead() -> None:
    scribe = Scribe()
    models = {"main": RuntimeFailure("dead"), "spare": scribe}
    host = ScriptedHost(models=models, history=[f"m{n} {words(29)}" for n in range(20)])
    driven = host.drive_sync(LocalAgent, "go", config=SMALL | BOTH)
    assert driven.text == "answer to go"
    assert len(scribe.asked_for_notes) == 1
    assert [r.model_id for r in requests(driven)] == ["main", "spare", "main", "spare"]


def test_notes_are_cut_to_their_size_and_thinking_is_no_part_of_them() -> None:
    def script(messages: list[ModelMessage]) -> str:
        return f"<think>hm</think>{words(500)}" if summarises(messages) else "ok"

    host = ScriptedHost(models={"main": script}, history=[f"m{n} {words(29)}" for n in range(20)])
    host.drive_sync(LocalAgent, "go", config=SMALL)
    kept = host.world.states["conversation"][CHECKPOINT][0]["summary"]
    assert kept.startswith("word")
    assert len(kept) < 30 * 4 + 50


def test_time_that_runs_out_while_notes_are_made_ends_the_run() -> None:
    def script(messages: list[ModelMessage]) -> Any:
        return DeadlineExceeded("the deadline passed")

    driven = drive_sync(LocalAgent, "go", config=SMALL, models={"main": script}, history=[words(30)] * 20)
    assert driven.code == "runner.timeout"


@pytest.mark.parametrize(
    ("window", "known", "request_", "keep", "summary"),
    [
        (200_000, None, 183_616, 20_000, 8_000),
        (200_000, 4_096, 3_072, 1_024, 512),
        (8_000, 128_000, 6_000, 2_000, 1_000),
    ],
)
def test_the_budget_fits_the_window(
    window: int, known: int | None, request_: int, keep: int, summary: int
) -> None:
    settings = read_settings(MAIN | {"context-window-tokens": window})
    budget = budget_of(settings, known)
    assert (budget.request, budget.keep_recent, budget.summary) == (request_, keep, summary)


# -- requests that are too long -------------------------------------------------------------------


def test_a_request_longer_than_the_window_is_made_once_more_with_less() -> None:
    room = 200

    def window(messages: list[ModelMessage]) -> Any:
        if summarises(messages):
            return "short notes"
        return OVERFLOW if sum(len(text_of(m.content).split()) for m in messages) > room else "made it"

    host = ScriptedHost(models={"main": window}, history=[f"m{n} {words(29)}" for n in range(9)])
    driven = host.drive_sync(LocalAgent, "go", config=SMALL)
    assert driven.text == "made it"
    assert "asked again with less" in logs(driven)
    assert system(driven).endswith("short notes")
    assert len(requests(driven)) == 3  # refused, notes, answered

    room = 10
    never = host.drive_sync(LocalAgent, "go", config=SMALL)
    assert (never.status, never.code) == ("failed", "local-agent.model_error")
    assert len([r for r in requests(never) if not summarises(r.messages)]) == 2


def test_after_an_overflow_that_stays_another_model_is_asked() -> None:
    driven = drive_sync(
        LocalAgent,
        "go",
        config=BOTH,
        models={"main": OVERFLOW, "spare": "I have more room."},
        history=["one", "two"],
    )
    assert driven.text == "I have more room."
    assert [r.model_id for r in requests(driven)][-1] == "spare"


def test_results_of_earlier_calls_make_room_for_later_ones() -> None:
    answers = [*(wishes(wish("read", "{}", f"c{n}")) for n in range(8)), "read all"]
    config = SMALL | {"context-history-fetch-limit": 0, "context-window-tokens": 900}
    driven = drive_sync(
        LocalAgent,
        "go",
        config=config,
        models={"main": answers},
        tools={"read": lambda: words(200, "abcdefghijklmnop")},
    )
    assert driven.text == "read all"
    for request in requests(driven):
        assert sum(len(text_of(m.content).split()) for m in request.messages) <= 900
    last = [text_of(m.content) for m in requests(driven)[-1].messages if m.role == "tool"]
    assert len(last) == 8
    assert "left out" in last[0]
    assert last[-1] == words(200, "abcdefghijklmnop")


def test_a_fallback_with_a_smaller_window_is_given_less() -> None:
    operations = ["stream", "count_tokens"]
    models = [
        {"model_id": "main", "operations": operations},
        {"model_id": "spare", "operations": operations, "context_window_tokens": 100},
    ]
    driven = drive_sync(
        LocalAgent,
        "go",
        config=BOTH,
        models={"main": RuntimeFailure("down"), "spare": "ok"},
        history=[f"m{n} {words(9)}" for n in range(20)],
        context={"resources": {"models": models}},
    )
    first, second = requests(driven)
    assert len(first.messages) == 22
    assert sum(len(text_of(m.content).split()) for m in second.messages) <= 75


# -- knowledge ------------------------------------------------------------------------------------

FACTS = {
    "kb": [{"content": "the sky is blue", "score": 0.0, "metadata": {"source": "sky.md"}}, "apples are red"],
    "more": ["the blue whale", "grass"],
}


def test_passages_stand_before_the_message() -> None:
    config = MAIN | {"knowledge-bases": ["kb", "more"], "retrieval-top-k": 1}
    driven = drive_sync(LocalAgent, "the sky", config=config, models={"main": "blue"}, knowledge=FACTS)
    (_, content) = asked(driven)[-1]
    assert content.endswith("[1] (sky.md) the sky is blue\n\n[2] the blue whale\n\nThe message:\nthe sky")
    calls = [(c.params.kb_id, c.params.top_k) for c in driven.calls if c.method == "knowledge.retrieve"]
    assert calls == [("kb", 1), ("more", 1)]


def test_passages_leave_room_in_a_small_window() -> None:
    knowledge = {"kb": [f"the sky {n} {words(500)}" for n in range(9)]}
    config = MAIN | {"knowledge-bases": ["kb"], "retrieval-top-k": 9, "context-window-tokens": 2_000}
    driven = drive_sync(LocalAgent, "the sky", config=config, models={"main": "ok"}, knowledge=knowledge)
    content = asked(driven)[-1][1]
    assert 1_000 < len(content) < 4_500
    assert content.endswith("The message:\nthe sky")


def test_a_model_orders_the_passages() -> None:
    config = MAIN | {"knowledge-bases": ["kb", "more"], "rerank-model": "judge", "rerank-top-k": 2}
    models = {"main": "blue", "judge": ""}
    driven = drive_sync(LocalAgent, "blue whale", config=config, models=models, knowledge=FACTS)
    assert "[1] the blue whale\n\n[2] (sky.md) the sky is blue\n\nThe message" in asked(driven)[-1][1]
    (call,) = [c.params for c in driven.calls if c.method == "model.rerank"]
    assert (call.query, len(call.documents), call.top_k) == ("blue whale", 4, 2)


def test_an_answer_is_given_without_knowledge_where_there_is_none() -> None:
    config = MAIN | {"knowledge-bases": ["kb", "other"], "rerank-model": "gone"}
    driven = drive_sync(LocalAgent, "sky", config=config, models={"main": "ok"}, knowledge={"kb": ["sky"]})
    assert driven.text == "ok"
    assert "knowledge base 'other' is not granted" in logs(driven)
    nothing = drive_sync(LocalAgent, "sky", config=config, models={"main": "ok"}, knowledge={"kb": []})
    assert asked(nothing)[-1] == ("user", "sky")
