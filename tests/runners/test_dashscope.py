"""What is DashScope's own."""

from __future__ import annotations

from typing import Any

from hostler_dashscope.runner import DashScope

from hostler_sdk.testing import Driven, drive
from support.local_agents import deltas, telemetry
from support.services.dashscope import APP, KEY, FakeDashScope, error_event, node, result
from support.services.server import Answer, reply, sse


async def ask(fake: FakeDashScope, given: Any = "Hi", **config: Any) -> Driven:
    whole = {"base-url": fake.base, "api-key": KEY, "app-id": APP, "app-type": fake.kind}
    return await drive(DashScope, given, config=whole | config)


def events(*sent: bytes) -> Answer:
    return Answer([*sent], content_type="text/event-stream")


async def test_marks_become_the_names_of_documents() -> None:
    documents = [
        {"index_id": "1", "doc_name": "手册.pdf", "text": "..."},
        {"index_id": 2, "title": "Terms"},
    ]
    async with FakeDashScope() as fake:
        sent = [result(text="See [1"), result(text="], <ref>[2]</ref> and a[3]."), result("stop", text="")]
        sent.insert(1, result(doc_references=documents))
        fake.next(events(*sent))
        driven = await ask(fake, references_quote="from ")
        assert driven.text == "See (from 手册.pdf), (from Terms) and a[3]."
        assert "".join(deltas(driven)) == "See [1], <ref>[2]</ref> and a[3]."


async def test_calls_of_tools_are_in_the_journal_and_thinking_is_not() -> None:
    call = {"action_type": "api", "action_name": "weather", "action_input_stream": '{"city": "Rome"}'}
    thinking = {"action_type": "reasoning", "action_name": "思考过程", "thought": "hm"}
    async with FakeDashScope() as fake:
        fake.next(
            events(
                result(thoughts=[thinking, call]),
                result(thoughts=[thinking, call | {"observation": "sunny"}], text="Sun"),
                result("stop", thoughts=[thinking, call | {"observation": "sunny"}]),
            )
        )
        driven = await ask(fake)
        assert telemetry(driven) == [("started", "thought-1"), ("completed", "thought-1")]
        assert driven.text == "Sun"


async def test_nodes_of_a_workflow() -> None:
    async with FakeDashScope("workflow") as fake:
        fake.next(events(result(workflow_message=node("A")), result("stop", text="A")))
        assert (await ask(fake)).text == "A"
        fake.next(events(result("stop", text="at once")))
        assert (await ask(fake)).text == "at once"


async def test_pictures_by_address_and_parameters() -> None:
    url = "https://pics.example.com/cat.png"
    async with FakeDashScope() as fake:
        given = {"text": "See", "contents": [{"type": "image_url", "image_url": {"url": url}}]}
        assert (await ask(fake, given, **{"biz-params": {"city": "Rome"}})).text == "ok"
        assert fake.messages == [{"prompt": "See", "image_list": [url], "biz_params": {"city": "Rome"}}]


async def test_errors_say_what_to_do() -> None:
    async with FakeDashScope() as fake:
        fake.next(events(error_event()))
        driven = await ask(fake)
        assert driven.code == "dashscope.service_error"
        assert "(Throttling.RateQuota): limit of ***; " in str(driven.error)
        assert driven.results[-1].data.retryable  # type: ignore[union-attr]
        fake.next(events(sse({"code": "AccessDenied.Unpurchased", "message": "no"}, "error")))
        assert (await ask(fake)).code == "dashscope.auth_error"
        fake.next(reply({"code": "InternalError", "message": "oops", "request_id": "r"}))
        driven = await ask(fake)
        assert (driven.code, "(InternalError): oops" in str(driven.error)) == (
            "dashscope.service_error",
            True,
        )
        driven = await ask(fake, **{"app-id": "a/../b"})
        assert driven.code == "dashscope.http_error"
        assert fake.asked[-1].path == "/api/v1/apps/a/../b/completion"
