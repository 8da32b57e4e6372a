"""What is Dify's own."""

from __future__ import annotations

from typing import Any

import pytest
from hostler_dify.runner import Dify

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas, telemetry
from support.services.dify import KEY, FakeDify, chat, error_event, workflow
from support.services.server import Answer, sse


async def drive(fake: FakeDify, given: Any = "Hi", host: ScriptedHost | None = None, **config: Any) -> Driven:
    named = {name.replace("_", "-"): value for name, value in config.items()}
    whole = {"base-url": fake.address, "api-key": KEY, "app-type": fake.kind, **named}
    return await (host or ScriptedHost()).drive(Dify, given, config=whole)


def events(*sent: bytes) -> Answer:
    return Answer([*sent], content_type="text/event-stream")


async def test_the_request_is_what_the_api_wants() -> None:
    async with FakeDify() as fake:
        assert (await drive(fake, "Hi", inputs={"tone": "dry"})).text == "ok"
        assert fake.messages == [
            {
                "inputs": {"tone": "dry"},
                "query": "Hi",
                "user": "conversation",
                "response_mode": "streaming",
                "conversation_id": "",
                "auto_generate_name": False,
            }
        ]


async def test_a_message_with_files_only_asks_the_base_prompt() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://pics.example.com/cat.png"}}
    async with FakeDify() as fake:
        assert (await drive(fake, {"contents": [picture]}, base_prompt="What is it?")).text == "ok"
        (sent,) = fake.messages
        assert sent["query"] == "What is it?"
        url = picture["image_url"]["url"]  # type: ignore[index]
        assert sent["files"] == [{"type": "image", "transfer_method": "remote_url", "url": url}]


async def test_an_answer_that_moderation_replaces() -> None:
    async with FakeDify() as fake:
        sent = [chat("message", answer="bad"), chat("message_replace", answer="No."), chat("message_end")]
        fake.next(events(*map(sse, sent)))
        driven = await drive(fake)
        assert (deltas(driven), driven.text, driven.usage) == (["bad"], "No.", None)


async def test_tools_of_an_agent_are_in_the_journal() -> None:
    thought = {"id": "t1", "thought": "", "tool": "search", "tool_input": '{"search": {"q": "x"}}'}
    async with FakeDify("agent") as fake:
        sent = [
            chat("agent_thought", **thought, observation=""),
            chat("agent_thought", **thought, observation="found"),
            chat("agent_message", answer="Yes"),
            chat("message_end"),
        ]
        fake.next(events(*map(sse, sent)))
        driven = await drive(fake)
        assert telemetry(driven) == [("started", "t1"), ("completed", "t1")]
        assert driven.text == "Yes"


async def test_a_conversation_that_dify_has_deleted_is_begun_anew() -> None:
    host = ScriptedHost()
    async with FakeDify() as fake:
        await drive(fake, host=host)
        fake.conversations.clear()
        driven = await drive(fake, host=host)
        assert driven.code == "dify.http_error"
        assert "Conversation Not Exists; " in str(driven.error)
        assert "the next message begins a new one" in str(driven.error)
        assert (await drive(fake, host=host)).text == "ok"


@pytest.mark.parametrize(
    ("outputs", "chosen", "text"),
    [
        ({"answer": "A", "text": "B"}, "", "A"),
        ({"other": {"深": 1}}, "", '{"深":1}'),
        ({"a": "A", "b": "B"}, "b", "B"),
    ],
)
async def test_the_output_of_a_workflow_that_does_not_stream(
    outputs: dict[str, Any], chosen: str, text: str
) -> None:
    async with FakeDify("workflow") as fake:
        fake.next(events(*workflow([], outputs)))
        driven = await drive(fake, workflow_output=chosen, workflow_input="question")
        assert (driven.text, deltas(driven)) == (text, [])
        assert fake.messages[0]["inputs"] == {"question": "Hi"}


async def test_an_output_that_is_not_known() -> None:
    async with FakeDify("workflow") as fake:
        fake.next(events(*workflow([], {"a": "A", "b": "B"})))
        driven = await drive(fake)
        assert (driven.code, "several outputs (a, b)" in str(driven.error)) == ("dify.config_invalid", True)
        fake.next(events(*workflow([], {"a": "A"})))
        driven = await drive(fake, workflow_output="c")
        assert driven.code == "dify.config_invalid"
        assert "no output 'c'; set config `workflow-output` to one of: a" in str(driven.error)


async def test_a_workflow_that_fails() -> None:
    async with FakeDify("workflow") as fake:
        fake.next(events(*workflow(["x"], status="failed", error="node exploded")))
        driven = await drive(fake)
        assert driven.code == "dify.service_error"
        assert "the workflow of Dify failed: node exploded" in str(driven.error)


async def test_an_error_says_what_to_do() -> None:
    async with FakeDify() as fake:
        fake.next(events(error_event()))
        driven = await drive(fake)
        assert driven.error == (
            "Dify reported an error (400 provider_quota_exceeded): no quota for ***; "
            "add credit for its model there"
        )
        driven = await drive(fake, app_type="workflow")
        assert driven.code == "dify.http_error"
        assert "Please check if your app mode matches the right API route; " in str(driven.error)
