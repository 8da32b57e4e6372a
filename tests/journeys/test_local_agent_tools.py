"""local-agent with the tools of a plugin, the whole way: HTTP, host, two plugin processes, model service."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from support.agent_host import answering, ask, record, shop, texts
from support.http_host import Event, Served
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer

ALL = {"allowed_tool_names": ["shop.*"]}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(300_000)).decode()


def types(found: list[Event]) -> list[str]:
    return [event.type for event in found if event.type not in ("message.delta", "log")]


async def text_of(served: Served, found: list[Event]) -> str:
    one = await record(served, found)
    assert one["status"] == "completed", one
    return str(one["output"]["text"])


async def test_it_books_a_room(tmp_path: Path) -> None:
    folder = shop(tmp_path)
    async with answering(tmp_path / "data", plugins=[folder], policy=ALL) as (served, server):
        server.add(
            wishes(
                ("p", "shop_prices", {}),
                ("b", "shop_book", {"kind": "double", "nights": 2}),
                pieces=["One moment."],
            )
        )
        server.say("Booked for 240.")
        found = await ask(served, "a double for two nights")
        assert await text_of(served, found) == "One moment.\nBooked for 240."
        offered = {t["function"]["name"]: t["function"] for t in server.requests[0].json["tools"]}
        assert {"shop_prices", "shop_book", "shop_pay", "shop_send"} <= offered.keys()
        assert offered["shop_book"]["description"].startswith("Books a room.")
        assert offered["shop_book"]["parameters"]["required"] == ["kind"]
        prices, booked = server.sent()[-2:]
        assert (prices["tool_call_id"], booked["tool_call_id"]) == ("p", "b")
        assert json.loads(prices["content"]) == {"single": 80, "double": 120, "suite": 300}
        assert json.loads(booked["content"])["total"] == 240
        started = ["tool.call.started"] * 2
        completed = ["tool.call.completed"] * 2
        middle = ["message.completed", *started, *completed, "message.completed", "run.completed"]
        assert types(found)[-len(middle) :] == middle
        assert "".join(texts(found)) == "One moment.Booked for 240."
        # the next turn knows what was said, and books on
        server.add(wishes(("b", "shop_book", {"kind": "single"})))
        server.say("And a single.")
        assert await text_of(served, await ask(served, "and a single")) == "And a single."
        assert json.loads(server.sent()[-1]["content"])["booking"] == "B2"


async def test_what_a_tool_refuses_is_told_to_the_model(tmp_path: Path) -> None:
    plugins = [shop(tmp_path)]
    async with answering(tmp_path / "data", plugins=plugins, policy=ALL, tool_execution_mode="serial") as (
        served,
        server,
    ):
        server.add(
            wishes(
                ("a", "shop_book", {"kind": "palace"}),
                ("b", "shop_book", {"kind": "suite", "nights": 99}),
                ("c", "shop_send", {"to": " ", "text": "hi"}),
                ("d", "shop_burn", {}),
            )
        )
        server.say("Nothing was booked.")
        found = await ask(served, "a palace")
        assert await text_of(served, found) == "Nothing was booked."
        results = {m["tool_call_id"]: m["content"] for m in server.sent()[-4:]}
        assert list(results) == ["a", "b", "c", "d"]
        assert all(text.startswith("Error (invalid_argument)") for text in results.values())
        assert "kind" in results["a"]
        assert "nights" in results["b"]
        assert "to must name somebody" in results["c"]
        assert "there is no tool 'shop_burn'" in results["d"]
        assert len(types(found)) >= 9


async def test_only_what_the_policy_allows_is_offered(tmp_path: Path) -> None:
    policy = {"allowed_tool_names": ["shop.prices"]}
    plugins = [shop(tmp_path)]
    async with answering(tmp_path / "data", plugins=plugins, policy=policy) as (served, server):
        server.add(wishes(("a", "shop_send", {"to": "Ada", "text": "hi"})))
        server.say("I may not.")
        await ask(served, "write to Ada")
        assert [t["function"]["name"] for t in server.requests[0].json["tools"]] == ["shop_prices"]
        assert "there is no tool 'shop_send'" in server.sent()[-1]["content"]


async def test_files_reach_the_model_and_are_still_there_in_the_next_turn(tmp_path: Path) -> None:
    async with answering(tmp_path) as (served, server):
        server.always("A cat.")
        image = {"type": "image_base64", "image_base64": PNG, "mime_type": "image/png"}
        notes = base64.b64encode("Ada's cat is größer.".encode()).decode()
        file = {
            "type": "file_base64",
            "file_base64": notes,
            "file_name": "cat.txt",
            "mime_type": "text/plain",
        }
        text = {"type": "text", "text": "what is it?"}
        given = {"text": "what is it?", "contents": [text, image, file]}
        assert await text_of(served, await ask(served, given)) == "A cat."
        first = server.sent()[-1]["content"]
        assert [part["type"] for part in first] == ["text", "image_url", "text"]
        assert first[2]["text"] == "[file cat.txt]\nAda's cat is größer."
        assert first[1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
        await ask(served, "and its colour?")
        _, with_picture, _, _ = server.sent()
        assert with_picture["content"] == first


def offered(server: ModelServer, place: int) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[place].json["tools"]]


def reads_on(request: Recorded) -> Answer:
    """A model that reads a long result to its end, and then says it."""
    told = [m["content"] for m in request.json["messages"] if m["role"] == "tool"]
    if len(told) == 1:
        artifact_id, offset = told[0].split("artifact ")[1].split()[0], 0
    elif "goes on at offset" in told[-1]:
        artifact_id = json.loads(request.json["messages"][-2]["tool_calls"][0]["function"]["arguments"])[
            "artifact_id"
        ]
        offset = int(told[-1].split("offset ")[1].split("]")[0])
    else:
        return Answer(pieces=["There it is: " + "".join(part.partition("\n")[2] for part in told[1:])])
    return wishes((f"r{offset}", "read_result", {"artifact_id": artifact_id, "offset": offset}))


async def test_a_long_result_is_kept_as_an_artifact(tmp_path: Path) -> None:
    plugins = [shop(tmp_path)]
    async with answering(tmp_path / "data", plugins=plugins, policy=ALL, max_tool_result_chars=20) as (
        served,
        server,
    ):
        server.add(wishes(("p", "shop_prices", {})))
        server.always(reads_on)
        found = await ask(served, "prices")
        (created,) = [json.loads(e.data)["data"] for e in found if e.type == "artifact.created"]
        told = server.sent(1)[-1]["content"]
        assert created["artifact_id"] in told
        assert "characters left out" in told
        whole = '{"single":80,"double":120,"suite":300}'
        kept = await served.client.get(f"/v1/artifacts/{created['artifact_id']}/content")
        assert kept.text == whole
        # the model reads it to its end, by a function that is offered from then on
        assert "read_result" not in offered(server, 0)
        assert offered(server, 1) == [*offered(server, 0), "read_result"]
        parts = [m["content"] for m in server.sent() if m["role"] == "tool"][1:]
        assert [part.partition("\n")[2] for part in parts] == [whole[:20], whole[20:]]
        assert parts[0].startswith(f"[bytes 0 to 20 of {len(whole)}; it goes on at offset 20]")
        assert await text_of(served, found) == f"There it is: {whole}"
