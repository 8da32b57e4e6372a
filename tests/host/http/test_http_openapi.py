"""The OpenAPI document: well formed, complete, and true of what is really answered."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec

from hostler.http import docs_page, openapi
from hostler.http.app import ENDPOINTS
from support.http_host import Served, serving
from support.json_schema import faults

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi.document(ENDPOINTS, "1.2.3")))


def walk(value: Any) -> Any:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


def test_the_document_is_well_formed() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert {"title", "version"} <= set(DOCUMENT["info"])
    operations = [op for path in DOCUMENT["paths"].values() for op in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert (
        len(ids)
        == len(set(ids))
        == sum(endpoint.dialect is None or endpoint.dialect.problem is not None for endpoint in ENDPOINTS)
    )
    tags = {tag["name"] for tag in DOCUMENT["tags"]}
    for path, methods in DOCUMENT["paths"].items():
        in_path = re.findall(r"{(\w+)}", path)
        for operation in methods.values():
            parameters = operation["parameters"]
            named = [p["name"] for p in parameters if p["in"] == "path"]
            assert named == in_path, path
            assert len({(p["in"], p["name"]) for p in parameters}) == len(parameters)
            assert operation["summary"]
            assert set(operation["tags"]) <= tags
            assert any(status.startswith(("1", "2", "303")) for status in operation["responses"])
            assert all(response["description"] for response in operation["responses"].values())


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    names = set(DOCUMENT["components"]["schemas"])
    used = {
        item["$ref"].removeprefix("#/components/schemas/")
        for item in walk(DOCUMENT)
        if isinstance(item, dict) and isinstance(item.get("$ref"), str)
    }
    assert used == names
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)


def test_only_open_routes_need_no_key() -> None:
    keyless = {
        path
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
        if operation.get("security") == []
    }
    sign_in = {"/sign-in", "/v1/auth/sign-in", "/v1/auth/callback"}
    sign_in |= {"/v1/auth/providers", "/v1/auth/session"}
    by_signature = {"/v1/hooks/{hook}", "/v1/channels/{channel}/webhook", "/v1/widgets/{widget}/visitors"}
    assert keyless == {"/healthz", "/readyz", "/v1/openapi.json", "/docs", *sign_in, *by_signature}
    people = {
        path
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
        if operation.get("security") == [{"session": []}]
    }
    assert people == {endpoint.path for endpoint in ENDPOINTS if endpoint.signed_in}


async def test_real_answers_are_as_the_document_says(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.say("remember k v", conversation_id="c", event_id="e")
        upload = await served.client.post("/v1/artifacts", params={"name": "a"}, content=b"abc")
        made = await served.client.post("/v1/keys", json={"name": "k", "rights": ["runs:read"]})
        called = await served.say("recall k", conversation_id="c")
        invited = await served.client.post("/v1/members", json={"email": "a@b.org", "role": "reader"})
        journal = (await served.client.get(f"/v1/runs/{called['run_id']}/journal")).json()["items"]
        timed = {"name": "puppet", "every": 86_400, "agent": "puppet"}
        scheduled = await served.client.post("/v1/schedules", json=timed)
        fired = await served.client.post("/v1/schedules/puppet/run")
        base = await served.client.post("/v1/knowledge", json={"kb_id": "house"})
        document = await served.client.put("/v1/knowledge/house/documents/a.md", content=b"Dogs.")
        asked = await served.client.post("/v1/knowledge/house/search", json={"query": "dogs"})
        values = {
            "kb_id": "house",
            "document": "a.md",
            "run_id": called["run_id"],
            "call": next(entry["position"] for entry in journal if entry["kind"] == "call"),
            "event_id": "e",
            "conversation_id": "c",
            "name": "puppet",
            "channel": "none",
            "model_id": "puppet",
            "plugin": "test%2Fpuppet",
            "runner_id": "plugin%3Atest%2Fpuppet%2Fdefault",
            "artifact_id": upload.json()["artifact_id"],
            "actor_id": "ada",
            "kind": "agents",
            "member_id": invited.json()["member_id"],
        }
        check(made, "/v1/keys", "post", 201)
        check(upload, "/v1/artifacts", "post", 201)
        check(base, "/v1/knowledge", "post", 201)
        check(document, "/v1/knowledge/{kb_id}/documents/{document}", "put", 201)
        check(asked, "/v1/knowledge/{kb_id}/search", "post", 200)
        check(scheduled, "/v1/schedules", "post", 201)
        check(fired, "/v1/schedules/{name}/run", "post", 202)
        for path, methods in DOCUMENT["paths"].items():
            elsewhere = {
                *(
                    "/v1/plugins/connect",
                    "/v1/workers/connect",
                    "/v1/workers/{worker}",
                    "/v1/ws",
                    "/v1/stream",
                    "/v1/channels/{channel}",
                    "/v1/channels/{channel}/webhook",
                    "/v1/outbox/{delivery_id}",
                    "/v1/conversations/{conversation_id}/stream",
                ),
                "/v1/pauses/{pause_id}",
                "/v1/hooks/{hook}",
                "/v1/widgets/{widget}/stream",
                "/v1/budgets/{budget_id}",
                "/v1/tools/{tool}",
                "/v1/skills/{skill}",
                "/v1/skills/{skill}/file",
            }
            if "get" not in methods or path in elsewhere or "/auth/" in path:
                # test_{skills,sign_in,timeline_streams}.py, test_http_{pauses,budgets,tools,workers}.py
                continue
            query = "?q=v" if path.endswith("/search") else ""
            if path == "/v1/artifacts":
                query = "?conversation_id=c"
            answer = await served.client.get(path.format(**values) + query)
            check(answer, path, "get", 200)
            refused = await served.client.get(path.format(**values) + "?no=such")
            if refused.status_code != 200:
                check(refused, path, "get", 400)
        event = {"event_type": "message.received", "input": {"text": "say 1"}}
        check(await served.client.post("/v1/events", json=event), "/v1/events", "post", 202)
        waited = await served.client.post("/v1/events?wait=30", json=event)
        check(waited, "/v1/events", "post", 200)
        check(await served.client.post("/v1/events", json={}), "/v1/events", "post", 400)
        config = await served.client.get("/v1/config")
        applied = await served.client.post("/v1/config", json=config.json())
        check(applied, "/v1/config", "post", 200)
        for path in ("/v1/actors/{actor_id}", "/v1/conversations/{conversation_id}"):
            check(await served.client.delete(path.format(**values)), path, "delete", 200)

    def check(answer: Any, path: str, method: str, status: int) -> None:
        assert answer.status_code == status, (path, answer.text)
        responses = DOCUMENT["paths"][path][method]["responses"]
        response = responses.get(str(status)) or responses["default"]
        kind = answer.headers["content-type"].partition(";")[0]
        if "application/octet-stream" in response["content"]:
            return  # of the artifact's own type
        assert kind in response["content"], (path, kind)
        if kind.endswith("json"):
            schema = response["content"][kind]["schema"]
            assert faults(answer.json(), schema, DOCUMENT) == [], path

    await _with(tmp_path, scenario)


def test_bodies_the_document_allows_are_taken_and_others_are_not() -> None:
    schema = DOCUMENT["components"]["schemas"]["EventEnvelope"]
    good = {"event_type": "a", "input": {"contents": [{"type": "text", "text": "x"}]}}
    assert faults(good, schema, DOCUMENT) == []
    for bad in ({}, {"event_type": 1, "input": {}}, {**good, "unknown": 1}):
        assert faults(bad, schema, DOCUMENT)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"a script in {tag}"
            if name in ("href", "src"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_shows_every_route_and_needs_no_internet() -> None:
    page = _Page()
    html = docs_page.render(DOCUMENT)
    page.feed(html)
    assert page.open == []
    assert "script" not in page.tags
    assert all(address.startswith(("#", "/")) for address in page.addresses)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= page.ids
    for path in DOCUMENT["paths"]:
        assert path.replace("&", "&amp;") in html


async def test_both_are_served(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with served.as_key(None) as client:
            document = await client.get("/v1/openapi.json")
            assert document.json()["paths"] == DOCUMENT["paths"]
            page = await client.get("/docs")
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert "default-src 'none'" in page.headers["content-security-policy"]

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
