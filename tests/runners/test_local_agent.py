"""local-agent: against scripted models, and through the host's own provider against a service on a socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_agent.agent import LocalAgent

from hostler_protocol.content import ArtifactRef, Usage
from hostler_protocol.manifest import defaults_of
from hostler_sdk.errors import DeadlineExceeded, HostError, InvalidArgument, RateLimited, RuntimeFailure
from hostler_sdk.loading import load_folder
from hostler_sdk.services.think_tags import ThinkFilter
from hostler_sdk.testing import ScriptedHost, drive_sync
from support.gates import Gate
from support.local_agents import BOTH, FOLDER, MAIN, answer, asked, deltas, logs, served
from support.model_server import ModelServer

# -- against scripted models ----------------------------------------------------------------------


def test_it_streams_an_answer_and_remembers_the_conversation() -> None:
    host = ScriptedHost(models={"main": ["Hello Ada, nice to meet you.", "You are Ada."]})
    first = host.drive_sync(LocalAgent, "I am Ada", config=MAIN | {"prompt": "Be kind."})
    assert first.text == "Hello Ada, nice to meet you." == "".join(deltas(first))
    assert len(deltas(first)) > 3
    assert asked(first) == [("system", "Be kind."), ("user", "I am Ada")]
    assert first.results[-1].type == "run.completed"
    assert first.results[-1].usage == Usage(input_tokens=5, output_tokens=6, total_tokens=11)

    second = host.drive_sync(LocalAgent, "Who am I?", config=MAIN)
    assert second.text == "You are Ada."
    assert asked(second) == [
        ("system", "You are a helpful assistant."),
        ("user", "I am Ada"),
        ("assistant", "Hello Ada, nice to meet you."),
        ("user", "Who am I?"),
    ]
    third = host.drive_sync(
        LocalAgent, "And?", config=MAIN | {"context-history-fetch-limit": 1}, models={"main": "Yes."}
    )
    assert [content for _, content in asked(third)[1:-1]] == [
        "I am Ada",
        "Hello Ada, nice to meet you.",
        "Who am I?",
        "You are Ada.",
    ]
    pages = [call for call in third.calls if call.method == "history.page"]
    assert len(pages) == 4
    none = host.drive_sync(LocalAgent, "Who?", config=MAIN | {"context-history-fetch-limit": 0})
    assert not [call for call in none.calls if call.method == "history.page"]


def test_a_long_history_is_read_over_several_pages() -> None:
    history = [("user", f"m{n}") for n in range(260)]
    driven = drive_sync(
        LocalAgent,
        "go",
        config=MAIN,
        models={"main": "ok"},
        history=history,
    )
    assert [content for _, content in asked(driven)[1:-1]] == [f"m{n}" for n in range(260)]


def test_pictures_stay_and_artifacts_stay_references() -> None:
    host = ScriptedHost(models={"main": "A cat."})
    host.world.remember(
        "user", "see this", [ArtifactRef(artifact_id="a9", mime_type="image/png", name="x.png")]
    )
    host.world.remember("tool", "not for the model")
    given = {
        "text": "what is it?",
        "contents": [
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": "http://pics/cat.png"}},
        ],
        "attachments": [{"artifact_id": "a1", "mime_type": "application/pdf", "name": "cat.pdf"}],
    }
    driven = host.drive_sync(LocalAgent, given, config=MAIN)
    (_, _), (role, past), (_, now) = asked(driven)
    assert role == "user"
    assert [type(element).__name__ for element in past] == ["TextElement", "ArtifactElement"]
    assert past[1].artifact_id == "a9"
    assert [type(e).__name__ for e in now] == ["TextElement", "ImageUrlElement", "ArtifactElement"]
    assert now[2].artifact_id == "a1"
    assert now[2].file_name == "cat.pdf"


@pytest.mark.parametrize("operations", [["stream", "invoke"], ["stream"], ["invoke"]])
def test_it_streams_where_it_may(operations: list[str]) -> None:
    resources = {"models": [{"model_id": "main", "operations": operations}]}
    driven = drive_sync(
        LocalAgent, "hi", config=MAIN, models={"main": "a b c"}, context={"resources": resources}
    )
    assert driven.text == "a b c"
    assert bool(deltas(driven)) == ("stream" in operations)
    assert [c.method for c in driven.calls if c.method.startswith("model")] == [
        "model.stream" if "stream" in operations else "model.invoke"
    ]  # and nothing is counted where counting was not granted


@pytest.mark.parametrize(
    ("error", "falls_back", "code"),
    [
        (RuntimeFailure("main is down", retryable=True), True, "local-agent.model_error"),
        (RateLimited("slow down"), True, "local-agent.rate_limited"),
        (InvalidArgument("no pictures, please"), True, "local-agent.model_error"),
        (DeadlineExceeded("the deadline passed"), False, "runner.timeout"),
    ],
)
def test_the_next_model_is_asked_where_one_fails(error: HostError, falls_back: bool, code: str) -> None:
    models = {"main": error, "spare": "Here I am."}
    driven = drive_sync(LocalAgent, "hi", config=BOTH, models=models)
    if falls_back:
        assert driven.text == "Here I am."
        assert error.message in logs(driven)
    else:
        assert driven.code == code
    alone = drive_sync(LocalAgent, "hi", config=MAIN, models=models)
    assert (alone.status, alone.code) == ("failed", code)
    assert error.message in (alone.error or "")
    both = drive_sync(LocalAgent, "hi", config=BOTH, models={"main": error, "spare": error})
    assert both.code == code
    assert not deltas(both)


@pytest.mark.parametrize(
    ("config", "text", "models", "code", "says"),
    [
        ({}, "hi", "x", "config_invalid", "primary"),
        ({"model": {"primary": "__none__"}}, "hi", "x", "config_invalid", "primary"),
        ({"model": {"primary": "other"}}, "hi", {"main": "x"}, "config_invalid", "other"),
        (
            MAIN | {"prompt": [{"role": "boss", "content": "x"}]},
            "hi",
            {"main": "x"},
            "config_invalid",
            "prompt",
        ),
        (MAIN | {"context-history-fetch-limit": -1}, "hi", {"main": "x"}, "config_invalid", "0 or more"),
        (MAIN | {"retrieval-top-k": 101}, "hi", {"main": "x"}, "config_invalid", "from 1 to 100"),
        (MAIN | {"rerank-top-k": 0}, "hi", {"main": "x"}, "config_invalid", "from 1 to 64"),
        (MAIN | {"tool-execution-mode": "all"}, "hi", {"main": "x"}, "config_invalid", "parallel or serial"),
        (MAIN, "", {"main": "x"}, "empty_input", "neither text"),
        (MAIN, "hi", {"main": ""}, "empty_answer", "try again"),
        (MAIN, "hi", {"main": answer(" ", "length")}, "empty_answer", "max_tokens"),
        (MAIN | {"remove-think": True}, "hi", {"main": "<think>hm"}, "empty_answer", "main"),
    ],
)
def test_failures_say_what_to_do(
    config: dict[str, Any], text: str, models: Any, code: str, says: str
) -> None:
    driven = drive_sync(LocalAgent, text, config=config, models=models)
    assert (driven.status, driven.code) == ("failed", f"local-agent.{code}")
    assert says in (driven.error or "")
    assert not driven.messages


def test_a_legacy_model_name_is_understood() -> None:
    assert drive_sync(LocalAgent, "hi", config={"model": "main"}, models={"main": "ok"}).text == "ok"


def test_the_finish_reason_is_passed_on() -> None:
    driven = drive_sync(LocalAgent, "hi", config=MAIN, models={"main": answer("cut o", "length")})
    assert (driven.text, driven.finish_reason) == ("cut o", "length")


def test_the_plugin_folder_states_the_whole_form() -> None:
    (runner,) = load_folder(FOLDER, {}).runners.values()
    manifest = runner.manifest
    assert manifest.id == "plugin:hostler/local-agent/default"
    assert manifest.capabilities.streaming
    assert manifest.capabilities.multimodal_input
    assert manifest.capabilities.resumable
    assert manifest.capabilities.steering
    assert manifest.capabilities.tool_calling
    assert manifest.capabilities.knowledge_retrieval
    assert defaults_of(manifest.config_schema) == {
        "prompt": [{"role": "system", "content": "You are a helpful assistant."}],
        "timeout": 300,
        "remove-think": False,
        "show-reasoning": False,
        "knowledge-bases": [],
        "retrieval-top-k": 5,
        "rerank-top-k": 5,
        "max-tool-iterations": 100,
        "tool-execution-mode": "parallel",
        "max-tool-result-chars": 20000,
        "context-history-fetch-limit": 50,
        "context-window-tokens": 200000,
        "context-reserve-tokens": 16384,
        "context-keep-recent-tokens": 20000,
        "context-summary-tokens": 8000,
    }
    for item in manifest.config_schema:
        assert item.label, item.name
        assert item.description, item.name
    assert {item.name for item in manifest.config_schema} - defaults_of(manifest.config_schema).keys() == {
        "model",
        "rerank-model",
    }


# -- <think> --------------------------------------------------------------------------------------


def without_think(pieces: Sequence[str]) -> str:
    kept = ThinkFilter()
    return "".join([*(kept.feed(piece) for piece in pieces), kept.finish()])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>hm</think>\n\nHi", "Hi"),
        ("Hi <think>hm</think>there", "Hi there"),
        ("<think>a</think><think>b</think>c", "c"),
        ("a < b and <thin> air</think>", "a < b and <thin> air</think>"),
        ("never closed <think>on and on", "never closed "),
        ("ends with <thi", "ends with <thi"),
        ("<think>a <think> b</think>c", "c"),
        ("", ""),
    ],
)
def test_think_parts_are_left_out_wherever_they_are_cut(text: str, shown: str) -> None:
    assert without_think([text]) == shown
    assert without_think(list(text)) == shown


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "th", "ink>", "/", "a", " b "])), st.data())
def test_think_cutting_changes_nothing(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert without_think(pieces) == without_think([text])


# -- through the host's provider, against a service on a socket ------------------------------------


def test_a_whole_conversation_with_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say(["<th", "ink>hm</think>", "\n", "Hel", "lo!"], split=3)
        server.always(lambda request: f"You said {request.json['messages'][1]['content']}.")
        config = MAIN | {"remove-think": True}
        first = await host.drive(LocalAgent, "I am Ada", config=config)
        assert deltas(first) == ["Hel", "lo!"]
        assert first.usage == Usage(input_tokens=11, output_tokens=7, total_tokens=18)
        second = await host.drive(LocalAgent, "Who am I?", config=config)
        assert second.text == "You said I am Ada."
        assert [m["role"] for m in server.requests[1].json["messages"]] == [
            "system",
            "user",
            "assistant",
            "user",
        ]

    served(monkeypatch, test)


def test_a_fallback_before_the_first_word_and_not_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.fail(503, "main is overloaded", times=3, model="main")
        server.say("spare here", model="spare")
        before = await host.drive(LocalAgent, "hi", config=BOTH)
        assert before.text == "spare here"
        assert "main is overloaded" in logs(before)
        assert [request.json["model"] for request in server.requests] == ["main"] * 3 + ["spare"]

        server.say("", reasoning=["hm"], finish_reason=None, done=False, model="main")
        server.say("spare again", model="spare")
        thought_only = await host.drive(LocalAgent, "hi", config=BOTH)
        assert thought_only.text == "spare again"

        server.say(["One ", "two "], finish_reason=None, done=False, model="main")
        server.say("never asked", model="spare")
        after = await host.drive(LocalAgent, "hi", config=BOTH)
        assert (after.status, after.code) == ("failed", "local-agent.model_error")
        assert "".join(deltas(after)) == "One two "
        assert "broke off" in (after.error or "")
        assert not after.messages
        assert server.requests[-1].json["model"] == "main"

    served(monkeypatch, test)


def test_a_cancelled_run_leaves_no_open_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say(["One ", Gate(), "never"])
        driven = await host.drive(
            LocalAgent, "hi", config=MAIN, cancel_on=lambda result: result.type == "message.delta"
        )
        assert driven.status == "cancelled"
        assert driven.calls[-1].given_up
        await server.disconnected()

    served(monkeypatch, test)
