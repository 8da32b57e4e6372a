"""Every agent is a model to clients of OpenAI's interfaces, and models are models to clients of this one."""

from __future__ import annotations

import openai
import pytest

from hostler.domain.model_entries import ModelEntry
from hostler.host.config import ConfigFile
from support.dialects.openai_chat import client_of
from support.http_host import Served


async def test_agents_are_listed_as_models(served: Served) -> None:
    await served.agent("模型/a b")
    await served.agent("idle", enabled=False)
    async with client_of(served.url) as client:
        models = (await client.models.list()).data
        assert [model.id for model in models] == ["puppet", "模型/a b"]
        assert {(model.object, model.owned_by) for model in models} == {("model", "hostler")}
        assert all(model.created > 1_700_000_000 for model in models)
        assert await client.models.retrieve("模型/a b") == models[1]
        for unknown in ("idle", "gpt-5"):
            with pytest.raises(openai.NotFoundError) as missing:
                await client.models.retrieve(unknown)
            assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.APIStatusError) as refused:
            await client.models.retrieve("x\x00")
        assert (refused.value.status_code, refused.value.type) == (400, "invalid_request_error")
    answer = await served.client.get("/v1/models/gpt-5")
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-should-retry"] == "false"
    assert (problem["code"], problem["detail"]) == ("not_found", problem["error"]["message"])
    async with client_of(served.url, "hostler_" + "x" * 43) as stranger:
        with pytest.raises(openai.AuthenticationError) as unknown_key:
            await stranger.models.list()
        assert unknown_key.value.code == "invalid_api_key"


async def test_the_list_is_still_that_of_models(served: Served) -> None:
    await served.host.apply(
        ConfigFile(models=[ModelEntry(id="main", base_url="http://127.0.0.1:9")]), actor="t"
    )
    page = (await served.client.get("/v1/models")).json()
    assert [item["model_id"] for item in page["items"]] == ["main"]
    assert (page["has_more"], page["next_cursor"], page["object"]) == (False, None, "list")
    assert [model["id"] for model in page["data"]] == ["puppet"]


async def test_only_who_may_send_messages_sees_to_whom(served: Served) -> None:
    async with served.as_key(await served.key("default", "models:read")) as reader:
        assert (await reader.get("/v1/models")).json()["data"] == []
        assert (await reader.get("/v1/models/puppet")).status_code == 403
    async with client_of(served.url, await served.key("other", "models:read", "events:write")) as stranger:
        assert (await stranger.models.list()).data == []
        with pytest.raises(openai.NotFoundError):
            await stranger.models.retrieve("puppet")
