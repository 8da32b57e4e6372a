"""What is Coze's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostler_coze.runner import Coze

from hostler_sdk.testing import Driven, drive
from support.local_agents import deltas, telemetry
from support.services.coze import BOT, KEY, FakeCoze, chat, created, said
from support.services.server import Answer, reply


async def ask(fake: FakeCoze, given: Any = "Hi", **config: Any) -> Driven:
    named = {name.replace("_", "-"): value for name, value in config.items()}
    return await drive(Coze, given, config={"api-base": fake.base, "api-key": KEY, "bot-id": BOT, **named})


def events(*sent: bytes) -> Answer:
    return Answer([*sent], content_type="text/event-stream")


async def test_the_request_is_what_the_api_wants() -> None:
    async with FakeCoze() as fake:
        await ask(fake, auto_save_history=False)
        assert fake.asked[0].json == {
            "bot_id": BOT,
            "user_id": "conversation",
            "stream": True,
            "auto_save_history": False,
            "additional_messages": [
                {"role": "user", "type": "question", "content_type": "text", "content": "Hi"}
            ],
        }
        picture = {"type": "image_url", "image_url": {"url": "https://pics.example.com/cat.png"}}
        await ask(fake, {"text": "Hi", "contents": [picture]})
        (message,) = fake.asked[1].json["additional_messages"]
        assert json.loads(message["content"]) == [
            {"type": "text", "text": "Hi"},
            {"type": "image", "file_url": "https://pics.example.com/cat.png"},
        ]


async def test_several_messages_and_one_that_does_not_stream() -> None:
    async with FakeCoze() as fake:
        fake.next(
            events(
                created(),
                said("delta", content="A"),
                said("delta", type="answer", content="", reasoning_content="hm"),
                said("completed", content="A"),
                said("completed", type="function_call", id="f", content='{"name": "search"}'),
                said("completed", type="tool_response", id="f", content="found"),
                said("completed", id="m-9", content="B"),
                chat("completed"),
            )
        )
        driven = await ask(fake)
        assert (driven.text, deltas(driven)) == ("A\n\nB", ["A", "\n\n", "B"])
        assert telemetry(driven) == [("started", "f"), ("completed", "f")]
        assert driven.usage is None


@pytest.mark.parametrize(
    ("code", "failure"), [(4101, "auth_error"), (4015, "service_error"), (0, "service_error")]
)
async def test_errors_with_status_200(code: int, failure: str) -> None:
    async with FakeCoze() as fake:
        fake.next(reply({"code": code, "msg": f"no, {KEY}"}))
        driven = await ask(fake)
        assert driven.code == f"coze.{failure}"
        assert f"({code}): no, ***" in str(driven.error)


async def test_a_chat_that_fails_or_waits() -> None:
    async with FakeCoze() as fake:
        fake.next(events(created(), chat("failed", last_error={"code": 4028, "msg": "quota used up"})))
        driven = await ask(fake)
        assert (driven.code, "(4028): quota used up" in str(driven.error)) == ("coze.service_error", True)
        fake.next(events(created(), chat("requires_action", required_action={})))
        driven = await ask(fake)
        assert (driven.code, "wants a tool's result" in str(driven.error)) == ("coze.service_error", True)
        assert (await ask(fake, bot_id="7")).code == "coze.service_error"
