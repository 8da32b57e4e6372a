"""What is Langflow's own."""

from __future__ import annotations

from typing import Any

import pytest
from hostler_langflow.runner import Langflow

from hostler_sdk.testing import Driven, drive
from support.local_agents import deltas
from support.services.langflow import FLOW, KEY, FakeLangflow, event, result
from support.services.server import Answer, reply


async def ask(fake: FakeLangflow, given: Any = "Hi", **config: Any) -> Driven:
    whole = {"base-url": fake.base, "api-key": KEY, "flow-id": FLOW}
    return await drive(Langflow, given, config=whole | config)


@pytest.mark.parametrize(
    "output",
    [
        {"outputs": {"message": {"message": "好"}}},
        {"outputs": {"message": {"message": {"text": "好"}}}},
        {"results": {"message": {"text": "好"}}},
        {"messages": [{"message": "好"}]},
    ],
)
async def test_a_flow_that_does_not_stream(output: dict[str, Any]) -> None:
    whole = {"session_id": "c", "outputs": [{"inputs": {}, "outputs": [output]}]}
    async with FakeLangflow() as fake:
        fake.next(reply(whole))
        driven = await ask(fake)
        assert (driven.text, deltas(driven), driven.status) == ("好", [], "completed")
        fake.next(Answer([event("end", result=whole)]))
        assert (await ask(fake)).text == "好"


async def test_what_the_end_does_not_repeat() -> None:
    async with FakeLangflow() as fake:
        said = event("add_message", sender="Machine", text="So it is.")
        fake.next(Answer([said, event("end", result={"outputs": []})]))
        assert (await ask(fake)).text == "So it is."
        fake.next(Answer([event("token", chunk="A"), event("end", result={})]))
        assert (await ask(fake)).text == "A"
        fake.next(Answer([event("token", chunk="dra"), event("end", result=result("draft, revised"))]))
        assert (await ask(fake)).text == "draft, revised"


async def test_a_component_that_fails() -> None:
    async with FakeLangflow() as fake:
        fake.next(Answer([event("add_message", sender="Machine", category="error", text="no model")]))
        driven = await ask(fake)
        assert driven.code == "langflow.service_error"
        assert driven.error == "the flow of Langflow failed: no model; run it in the Playground"
        assert (await ask(fake, **{"flow-id": "other"})).code == "langflow.http_error"


async def test_the_name_of_a_variable_is_checked() -> None:
    given = {"assets-enabled": True, "assets-input-name": "a b"}
    context = {"runtime": {"metadata": {"assets": {"url": "u", "token": "t"}}}}
    async with FakeLangflow() as fake:
        config = {"base-url": fake.base, "api-key": KEY, "flow-id": FLOW, **given}
        driven = await drive(Langflow, "Hi", config=config, context=context)
        assert (driven.code, fake.asked) == ("langflow.config_invalid", [])
