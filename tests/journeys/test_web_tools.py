"""Whole hosts with services and `fetch` as tools: what runs and models get, and what is written down."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.host.config import ConfigFile
from support.agent_host import ask, hosting, record
from support.model_answers import Answer
from support.model_server import ModelServer
from support.openapi.petstore import API_KEY, TOKEN, PetStore, answer
from support.openapi.weather import DOCUMENT as WEATHER
from support.openapi.weather import WHO, Weather
from support.stepping import Stage, stage, within
from support.web import Web, page

DOCUMENT = Path(__file__).parents[1] / "support" / "openapi" / "petstore.yaml"
REX = {"id": 2, "name": "Rex", "photoUrls": []}


def calling(name: str, **parameters: Any) -> list[Any]:
    return ["call", "tool.call", {"tool_name": name, "parameters": parameters}]


async def configured(made: Stage, web: Web) -> None:
    shop = OpenApiEntry(
        name="shop",
        document=str(DOCUMENT),
        base_url=web.url("/api/v3"),
        auth={"api_key": "env:STORE_KEY", "petstore_auth": "env:STORE_TOKEN"},
        network=["127.0.0.1"],
    )
    tools = [ToolEntry(openapi=shop), ToolEntry(fetch=FetchEntry(network=["127.0.0.1"]))]
    await made.host.apply(ConfigFile(tools=tools), actor="test")
    await made.agent(resource_policy={"allowed_tool_names": ["shop.*", "fetch"]})


async def test_runs_use_services_and_pages_and_no_secret_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_KEY", API_KEY)
    monkeypatch.setenv("STORE_TOKEN", TOKEN)
    picture = b"\x89PNG\r\n\x1a\n" + bytes(100)
    async with within(200), Web() as web, stage(tmp_path, agent=False) as made:
        store = PetStore(web)
        web.pages["/page"] = page("<title>T</title><script>x</script><p>Hello", kind="text/html")
        web.pages["/cat.png"] = page(picture, kind="image/png")
        await configured(made, web)
        ended = await made.run(
            [
                calling("shop.addPet", body=REX),
                calling("shop.getInventory"),
                calling("shop.getPetById", petId="two"),
                calling("shop.getPetById", petId=99),
                calling("fetch", url=web.url("/page")),
                calling("fetch", url=web.url("/cat.png")),
                ["call", "artifact.read", {"artifact_id": "$5.result.artifact.artifact_id"}],
                calling("fetch", url="http://169.254.169.254/latest/meta-data/"),
                ["tell"],
            ]
        )
        told = ended.told
        assert told[0]["result"]["body"] == REX
        assert told[1]["result"]["body"]["key you sent"] == "[secret]"
        assert told[2]["error"]["code"] == "invalid_argument"
        assert "petId" in told[2]["error"]["message"]
        assert told[3]["error"]["code"] == "not_found"
        assert "404 Not Found: Pet not found" in told[3]["error"]["message"]
        assert (told[4]["result"]["title"], told[4]["result"]["text"]) == ("T", "Hello")
        assert told[4]["result"]["untrusted"] is True
        assert base64.b64decode(told[6]["content_base64"]) == picture
        assert "link-local" in told[7]["error"]["message"]

        [intent] = ended.entries("intent", "tool.call")  # of all of these only addPet changes something
        assert intent["data"]["tool_name"] == "shop.addPet"
        assert [asked.path for asked in web.asked if "/pet" in asked.path] == [
            "/api/v3/pet",
            "/api/v3/pet/99",
        ]
        assert store.pets[2] == REX
        store.next_answers = [answer({"echo": TOKEN}, "500 Broken")]
        broken = await made.run([calling("shop.addPet", body=REX), ["tell"]])
        assert "[secret]" in broken.told[0]["error"]["message"]
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert any(b"shop.addPet" in data for data in written)
    for secret in (API_KEY, TOKEN):
        assert not any(secret.encode() in data for data in written)


async def test_a_model_uses_a_public_service_and_is_told_what_was_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHO", WHO)

    def wish(name: str, **given: Any) -> Answer:
        wanted = [{"id": "c", "name": name, "arguments": json.dumps(given)}]
        return Answer(tool_calls=wanted, finish_reason="tool_calls")

    async with within(100), Web() as web, ModelServer(api_key="k") as server:
        Weather(web)
        entry = OpenApiEntry(
            name="weather",
            document=str(WEATHER),
            base_url=web.url(),
            auth={"userAgent": "env:WHO"},
            allow=["point", "gridpoint_forecast"],
            network=["127.0.0.1"],
        )
        policy = {"allowed_tool_names": ["weather.*"]}
        tools = [ToolEntry(openapi=entry)]
        async with hosting(tmp_path, server, policy=policy, tools=tools, window=32_000) as served:
            for asked in (
                wish("weather_point", point="Topeka"),
                wish("weather_point", point="0,0"),
                wish("weather_point", point="39.7456,-97.0892"),
                wish("weather_gridpoint_forecast", wfo="TOP", x=31, y=80, units="si"),
            ):
                server.add(asked)
            server.say("It will be fine.")
            found = await ask(served, "How will it be in Topeka?")
            assert (await record(served, found))["output"]["text"] == "It will be fine."
        offered = {t["function"]["name"]: t["function"] for t in server.requests[0].json["tools"]}
        assert set(offered) == {"weather_point", "weather_gridpoint_forecast"}
        assert offered["weather_point"]["parameters"]["required"] == ["point"]
        results = [m["content"] for m in server.requests[-1].json["messages"] if m["role"] == "tool"]
        assert results[0].startswith("Error (invalid_argument)")
        assert "at /point" in results[0]
        assert results[1].startswith("Error (not_found)")
        assert "404 Not Found" in results[1]
        assert "Unable to provide data for /points/0,0" in results[1]
        assert json.loads(results[2])["body"]["properties"]["gridId"] == "TOP"
        assert json.loads(results[3])["body"]["properties"]["units"] == "si"
        assert len(web.asked) == 3  # what was wrong was never sent
