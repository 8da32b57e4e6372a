"""Widgets: how much visitors, their messages and their files may take, and none of it from others."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from hostler.channels.widgets import TOKENS_PER_VISITOR
from hostler.domain.events import Caller, CallerScope
from hostler.storage.port import Tx
from hostler.storage.stores import tokens
from hostler_protocol.errors import RateLimitedError
from hostler_protocol.events import EventEnvelope, Input
from support.http_host import Served
from support.widget_visits import SHOP, configure, ended, enter, message, send, served, visit

__all__ = ["served"]
pytestmark = pytest.mark.gate("widgets")
EVIL = "https://evil.example"


async def test_one_address_takes_a_part_of_the_messages_and_none_from_others(served: Served) -> None:
    await configure(served, messages_per_minute=4, total_messages_per_minute=60, visitors_per_minute=10_000)
    visitors = [await visit(served) for _ in range(12)]
    sent = [
        (await send(served, one["token"], "x", f"{number}")).status_code
        for one in visitors
        for number in range(2)
    ]
    assert sent.count(202) == 8  # of an address, however many visitors; 30 in total
    caller = Caller(
        "default",
        "front-end:else",
        "k",
        scope=CallerScope("puppet", "widget-else", "widget.help", "visitor:else"),
        address="192.0.2.7",
    )
    served.host.widgets.check_message(EventEnvelope(event_type="message.received", input=Input()), caller)
    with pytest.raises(RateLimitedError, match="of this address"):
        served.host.widgets.check_message(
            EventEnvelope(event_type="message.received", input=Input()),
            dataclasses.replace(caller, address="127.0.0.1"),
        )


async def test_a_visitor_has_a_few_tokens_and_takes_none_from_others(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 5)
    monkeypatch.setattr("hostler.channels.widgets.VISITOR_RENEWALS_PER_MINUTE", 24.0)
    await configure(served, title="Help")
    made = [await visit(served)]
    for _ in range(11):
        made.append(await visit(served, made[-1]["visitor"]))
    over = await enter(served, made[-1]["visitor"])
    assert (over.status_code, "this visitor asks" in over.text) == (201, False)
    over = await enter(served, made[-1]["visitor"])
    assert (over.status_code, "this visitor asks" in over.text) == (429, True)

    def valid(tx: Tx) -> int:
        return len(tokens.page(tx, "default", made_by="widget.help"))

    assert await served.host.db.read(valid) == TOKENS_PER_VISITOR
    async with served.as_key(made[0]["token"]) as client:
        assert (await client.get("/v1/artifacts")).status_code == 401
    async with served.as_key(made[-1]["token"]) as client:
        assert (await client.get("/v1/artifacts")).status_code == 200
    assert (await enter(served)).status_code == 201  # another visitor


async def test_a_message_brings_its_text_and_little_beside(served: Served) -> None:
    await configure(served, max_message_chars=200)
    made = await visit(served)

    async def status(**more: Any) -> int:
        async with served.as_key(made["token"]) as client:
            answer = await client.post("/v1/events", json={**message("hi"), **more}, headers={"origin": SHOP})
            return answer.status_code

    assert await status(thread_id="another") == 403
    long = "x" * 200
    assert await status(data={"note": long}) == 400
    assert await status(actor={"actor_type": "user", "actor_name": long}) == 400
    assert await status(delivery={"platform_capabilities": {"note": long}}) == 400
    assert await status(data={"note": "short"}, actor={"actor_type": "user", "actor_name": "Ada"}) == 202


async def test_floods_are_bounded_and_harm_no_other_visitor(served: Served) -> None:
    await configure(
        served,
        visitors_per_minute=4,
        messages_per_minute=4,
        max_message_chars=50,
        total_visitors_per_minute=100,
    )
    made = await visit(served)
    answers = [await enter(served) for _ in range(5)]
    assert [one.status_code for one in answers] == [201, 429, 429, 429, 429]
    assert float(answers[-1].headers["retry-after"]) > 0
    other = answers[0].json()
    assert (await visit(served, made["visitor"]))["known"] is True  # who was there before comes back
    sent = [await send(served, made["token"], "say 1", f"f{number}") for number in range(5)]
    assert [one.status_code for one in sent] == [202, 202, 429, 429, 429]
    again = await visit(served, made["visitor"])  # a new token is no new allowance
    assert (await send(served, again["token"], "say 1", "f9")).status_code == 429
    assert (await send(served, other["token"], "say 1")).status_code == 202
    assert (await send(served, other["token"], "x" * 51, "long")).status_code == 400
    async with served.as_key(other["token"]) as client:
        huge = await client.post("/v1/events", json=message("x" * 5_000_000, "huge"))
        assert huge.status_code in (400, 413)
    assert served.host.widgets.counts["help", "rate"] >= 8


async def test_files_only_where_the_entry_allows_them_and_no_larger(served: Served) -> None:
    made = await visit(served)
    async with served.as_key(made["token"]) as client:
        assert (await client.post("/v1/artifacts", content=b"abc")).status_code == 403
        inline = [{"type": "image_base64", "image_base64": "aGk="}]
        assert (await send(served, made["token"], "hi", contents=inline)).status_code in (400, 403)
    tool = {"name": "steal", "description": "", "parameters": {"type": "object"}}
    assert (await send(served, made["token"], "hi", tools=[tool])).status_code in (400, 403)
    await configure(served, allow_files=True, max_file_mib=1)
    made = await visit(served)
    other = await visit(served)
    async with served.as_key(made["token"]) as client:
        up = await client.post("/v1/artifacts?name=a.txt", content=b"abc")
        assert up.status_code == 201, up.text
        assert (await client.post("/v1/artifacts", content=b"x" * (2**20 + 1))).status_code == 413
        file = up.json()["artifact_id"]
        assert (await client.get(f"/v1/artifacts/{file}/content")).content == b"abc"
        listed = (await client.get("/v1/artifacts")).json()["items"]
        assert [one["artifact_id"] for one in listed] == [file]
    async with served.as_key(other["token"]) as client:
        assert (await client.get(f"/v1/artifacts/{file}/content")).status_code == 404
        assert (await client.get("/v1/artifacts")).json()["items"] == []
    foreign = [{"artifact_id": file}]
    assert (await send(served, other["token"], "hi", attachments=foreign)).status_code == 404
    assert (await send(served, made["token"], "hi", attachments=foreign)).status_code == 202


async def test_tokens_end_with_the_widget_its_agent_and_its_origins(served: Served) -> None:
    made = await visit(served)

    async def status(origin: str = SHOP) -> int:
        async with served.as_key(made["token"]) as client:
            path = f"/v1/conversations/{made['conversation_id']}/history"
            return (await client.get(path, headers={"origin": origin})).status_code

    found = await served.host.db.read(lambda tx: tokens.find_by_token(tx, made["token"]))
    assert found is not None
    assert found.made_by == "widget.help"
    assert await status() == 200
    removed = await served.client.delete("/v1/config/widgets/help")
    assert removed.status_code in (200, 204), removed.text
    async with asyncio.timeout(30):
        while await status() != 401:
            await asyncio.sleep(0.2)
    assert (await enter(served)).status_code == 404
    await configure(served, origins=[EVIL])
    async with asyncio.timeout(30):
        while await status() != 403:
            await asyncio.sleep(0.2)
    listed = (await served.client.get("/v1/tokens")).json()["items"]
    assert [one["made_by"] for one in listed] == ["widget.help"]
    assert (await served.client.delete(f"/v1/tokens/{found.token_id}")).status_code == 204
    assert await status() == 401


async def test_a_token_of_the_pages_own_server_follows_the_widget_for_its_person(served: Served) -> None:
    key = await served.key("default", "events:write", "conversations:read", "tokens:subject")
    async with served.as_key(key) as client:
        asked = {"agent": "puppet", "subject": "ada", "origins": [SHOP]}
        made = (await client.post("/v1/tokens", json=asked)).json()
        assert (await client.get("/v1/widgets/help/stream")).status_code == 403
    await served.agent("other")
    async with served.as_key(made["token"]) as client:
        async with client.stream("GET", "/v1/widgets/help/stream", headers={"origin": SHOP}) as answer:
            assert answer.status_code == 200
        sent = await client.post("/v1/events", json=message("say 1"), headers={"origin": SHOP})
        await ended(served, sent)
    (event,) = (await served.client.get("/v1/events")).json()["items"]
    assert event["requester"] == "ada"
    await configure(served, agent="other")
    async with served.as_key(made["token"]) as client:
        found = await client.get("/v1/widgets/help/stream", headers={"origin": SHOP})
        assert found.status_code == 404
