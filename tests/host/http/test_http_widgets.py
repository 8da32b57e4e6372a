"""Widgets over HTTP: who gets a token, what it reaches, and what strangers get: nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from functools import partial
from typing import Any

import pytest

from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact
from hostler.storage.stores.blobs import Blob
from support.http_host import Served
from support.widget_visits import SHOP, configure, ended, enter, history, message, send, served, visit

__all__ = ["served"]
pytestmark = pytest.mark.gate("widgets")
EVIL = "https://evil.example"


async def test_a_visitor_talks_to_the_agent_and_finds_its_conversation_again(served: Served) -> None:
    first = await visit(served)
    assert first["known"] is False
    await ended(served, await send(served, first["token"], "say 1"))
    assert sorted(await history(served, first)) == ["done: say 1.", "say 1"]
    again = await visit(served, first["visitor"])
    assert (again["known"], again["conversation_id"]) == (True, first["conversation_id"])
    assert again["token"] != first["token"]
    assert len(await history(served, again)) == 2
    # the same message again, with the next token: nothing doubled
    repeated = await send(served, again["token"], "say 1")
    assert repeated.json()["duplicate"] is True
    assert len(await history(served, again)) == 2


async def test_the_stream_shows_a_visitor_its_answer_and_nothing_of_the_work(served: Served) -> None:
    made = await visit(served)
    async with served.as_key(made["token"]) as client:
        url = "/v1/widgets/help/stream?from=start"
        async with client.stream("GET", url, headers={"origin": SHOP}) as answer:
            assert answer.status_code == 200
            await ended(served, await send(served, made["token"], "say 2"))
            seen: list[tuple[str, dict[str, Any]]] = []
            fields: dict[str, str] = {}
            async with asyncio.timeout(30):
                async for line in answer.aiter_lines():
                    name, _, value = line.partition(": ")
                    if line:
                        fields[name] = value
                        continue
                    if "event" in fields:
                        seen.append((fields["event"], json.loads(fields["data"])))
                    last, fields = fields.get("id", ""), {}
                    if seen and seen[-1][0] == "run.status" and seen[-1][1]["status"] == "completed":
                        break
        assert "".join(data["text"] for kind, data in seen if kind == "message.delta") == "0 1 "
        kinds = {kind for kind, _ in seen}
        assert kinds == {"event.received", "run.status", "message.delta", "message.completed"}
        assert all(not {"data", "envelope", "message", "cause"} & set(data) for _, data in seen)
        # from where it was: nothing comes twice
        async with client.stream(
            "GET", "/v1/widgets/help/stream", headers={"origin": SHOP, "last-event-id": last}
        ) as more:
            await ended(served, await send(served, made["token"], "say 1", "m2"))
            async with asyncio.timeout(30):
                async for line in more.aiter_lines():
                    if line.startswith("data: ") and '"text"' in line:
                        assert json.loads(line[6:])["text"] == "0 "
                        break


async def test_pages_of_other_origins_get_nothing(served: Served) -> None:
    for origin in (EVIL, "null", None, "http://shop.example", SHOP + ":8443", served.url):
        refused = await enter(served, origin=origin)
        assert refused.status_code == 403, (origin, refused.text)
        assert "token" not in refused.json()
    async with served.as_key(None) as client:
        for origin, status in ((EVIL, 403), (SHOP, 204)):
            asked = {"origin": origin, "access-control-request-method": "POST"}
            answer = await client.options("/v1/widgets/help/visitors", headers=asked)
            assert answer.status_code == status
            assert ("access-control-allow-origin" in answer.headers) is (status == 204)
    # the very token of a visitor, in a page of another site
    made = await visit(served)
    async with served.as_key(made["token"]) as client:
        for path in (f"/v1/conversations/{made['conversation_id']}/history", "/v1/widgets/help/stream"):
            assert (await client.get(path, headers={"origin": EVIL})).status_code == 403
        stolen = await client.post("/v1/events", json=message("say 1"), headers={"origin": EVIL})
        assert stolen.status_code == 403
    assert (await enter(served, widget="none-such")).status_code == 404


async def test_a_stolen_token_reaches_one_conversation_only(served: Served) -> None:
    mine, other = await visit(served), await visit(served)
    assert mine["conversation_id"] != other["conversation_id"]
    answer = await send(served, other["token"], "say 1")
    await ended(served, answer)
    run_id = answer.json()["run"]["run_id"]
    async with served.as_key(other["token"]) as client:
        assert (await client.get(f"/v1/runs/{run_id}/journal")).status_code == 403  # not even of its own
    async with served.as_key(mine["token"]) as client:
        place = other["conversation_id"]
        for path in (
            f"/v1/conversations/{place}/history",
            f"/v1/conversations/{place}/stream",
            f"/v1/artifacts?conversation_id={place}",
            f"/v1/pauses?conversation_id={place}",
            f"/v1/runs/{run_id}",
            "/v1/runs",
            "/v1/stream",
            "/v1/agents",
            "/v1/config/widgets",
            "/v1/widgets",
            "/v1/tokens",
        ):
            found = await client.get(path)
            assert found.status_code in (403, 404), (path, found.text)
        assert (await client.post(f"/v1/runs/{run_id}/cancel", json={})).status_code == 404
        wrong = message("say 1") | {"conversation_id": place}
        assert (await client.post("/v1/events", json=wrong)).status_code == 404
        assert (await client.post("/v1/tokens", json={"agent": "puppet"})).status_code == 403
        assert (await client.post("/v1/events?wait=1", json=message("say 1", "w"))).status_code == 403
    assert await history(served, mine) == []


async def test_no_visitor_id_is_taken_but_as_it_was_issued(served: Served) -> None:
    await configure(served, visitors_per_minute=10_000, total_visitors_per_minute=10_000)
    made = await visit(served)
    chance, known = random.Random(7), {made["conversation_id"]}
    text = made["visitor"]
    attempts = ["", "x", "\u0000", "a" * 1_024, made["token"], made["conversation_id"], text + "A", text[:-1]]
    for _ in range(60):
        at = chance.randrange(len(text))
        attempts.append(text[:at] + chance.choice("ABCDEFGHabcdefgh0123456789-_") + text[at + 1 :])
    for attempt in attempts:
        answer = await enter(served, attempt)
        assert answer.status_code == 201, answer.text
        found = answer.json()
        if attempt != text:
            assert found["known"] is False
            assert found["conversation_id"] not in known
        known.add(found["conversation_id"])
    assert (await enter(served, "a" * 1_025)).status_code == 400
    # of another origin, and after the operator has ended all
    await configure(served, origins=[SHOP, EVIL])
    assert (await enter(served, text, origin=EVIL)).json()["known"] is False
    assert (await visit(served, text))["known"] is True
    await configure(served, generation=2)
    assert (await visit(served, text))["known"] is False


async def test_a_visitor_id_ends_after_its_days_and_begins_anew_with_each_visit(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr(served.host.widgets, "_now", lambda: now[0])
    await configure(served, conversation_days=2)
    made = await visit(served)
    now[0] += 1.5 * 86_400
    second = await visit(served, made["visitor"])
    now[0] += 1.5 * 86_400
    assert (await visit(served, made["visitor"]))["known"] is False
    assert (await visit(served, second["visitor"]))["conversation_id"] == made["conversation_id"]


async def test_what_tools_returned_is_the_agents_alone(served: Served) -> None:
    """A large result of a tool, and a file of one, are artifacts of the conversation."""
    made = await visit(served)
    answer = await send(served, made["token"], "make by the agent")
    await ended(served, answer)
    run_id, place = answer.json()["run"]["run_id"], Place(conversation_id=made["conversation_id"])
    kinds = {"canary.txt": "tool_result", "chart.png": "file", "other.png": "file"}
    ids: dict[str, str] = {}

    def make(tx: Tx, name: str, blob: Blob) -> None:
        new = NewArtifact(
            artifact_type=kinds[name], blob=blob, source="tool", name=name, place=place, run_id=run_id
        )
        stored = artifacts.create(tx, "default", new)
        assert isinstance(stored, StoredArtifact)
        ids[name] = stored.artifact_id

    for name in kinds:
        blob = await served.host.blobs.put(name.encode())
        await served.host.db.write(partial(make, name=name, blob=blob))

    async def listed(token: str | None = None) -> set[str]:
        client = served.client
        found: set[str] = set()
        for query in (f"conversation_id={place.conversation_id}", f"run_id={run_id}"):
            async with served.as_key(token) if token else contextlib.nullcontext(client) as caller:
                items = (await caller.get(f"/v1/artifacts?{query}")).json()["items"]
            found |= {item["name"] for item in items}
        return found

    async def fetched(name: str) -> list[int]:
        async with served.as_key(made["token"]) as client:
            paths = (f"/v1/artifacts/{ids[name]}", f"/v1/artifacts/{ids[name]}/content")
            return [(await client.get(path)).status_code for path in paths]

    assert await listed(made["token"]) == {"made.txt"}
    assert await listed() == {"made.txt", *ids}
    assert [await fetched(name) for name in ids] == [[404, 404]] * 3
    # what the agent shows in a message or an `artifact.created`, but never a result of a tool
    for name in ("canary.txt", "chart.png"):
        named = partial(artifacts.show, ws="default", run_id=run_id, artifact_id=ids[name])
        await served.host.db.write(named)
    assert await listed(made["token"]) == {"made.txt", "chart.png"}
    assert [await fetched(name) for name in ids] == [[404, 404], [200, 200], [404, 404]]
    # nor what the agent keeps
    async with served.as_key(made["token"]) as client:
        state = await client.get(f"/v1/conversations/{place.conversation_id}/state")
        assert (state.status_code, "runs:read" in state.text) == (403, True)


async def test_the_script_is_small_cached_and_has_the_entry(served: Served) -> None:
    await configure(
        served, title={"en": "Help </script>", "zh": "\u5e2e\u52a9"}, greeting="Hi", try_page=True
    )
    async with served.as_key(None) as client:
        script = await client.get("/widget/help.js")
        assert script.status_code == 200
        assert script.headers["content-type"].startswith("text/javascript")
        assert script.headers["cross-origin-resource-policy"] == "cross-origin"
        assert len(script.content) < 44 * 1_024
        assert "Help </script>" in script.text
        for forbidden in (
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "@type",
        ):
            assert forbidden not in script.text
        known = await client.get("/widget/help.js", headers={"if-none-match": script.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        packed = (
            len(script.content) if "content-encoding" not in script.headers else script.num_bytes_downloaded
        )
        assert packed < 16 * 1_024
        page = await client.get("/widget/help", headers={"accept-language": "zh-CN"})
        assert 'lang="zh"' in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await client.post("/widget/help.js")).status_code == 405
        for path in ("/widget/none.js", "/widget/", "/widget/help.js/x", "/widget/..%2f", "/widget"):
            assert (await client.get(path)).status_code == 404, path
        assert (await enter(served, origin=served.url)).status_code == 201  # the page at which it is tried
        await configure(served)
        assert (await client.get("/widget/help")).status_code == 404


async def test_operators_see_what_is_open_what_came_in_and_what_is_wrong(served: Served) -> None:
    await visit(served)
    await enter(served, origin=EVIL)
    (record,) = (await served.client.get("/v1/widgets")).json()["items"]
    assert record["script"] == f"{served.url}/widget/help.js"
    assert record["requests"] == {"visitor": 1, "origin": 1}
    assert record["problems"] == []
    await configure(served, origins=["*"], agent="gone")
    (record,) = (await served.client.get("/v1/widgets")).json()["items"]
    assert any("any page of the internet" in problem for problem in record["problems"])
    assert any("no agent 'gone'" in problem for problem in record["problems"])
    assert (await enter(served, origin=EVIL)).status_code == 404
    problems = (await served.client.get("/v1/problems")).json()
    assert "widget" in {one["kind"] for one in problems["items"]}
    metrics = (await served.client.get("/metrics")).text
    assert (
        'hostler_widget_requests_total{outcome="visitor",widget="help"}' in metrics
        or "hostler_widget" in metrics
    )
