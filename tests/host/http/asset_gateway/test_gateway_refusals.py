"""The asset gateway and those it does not serve: wrong tokens, hostile bodies, too much of anything."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.client.client import Client

from hostler.domain.token_bucket import TokenBuckets
from hostler.http.asset_gateway import gateway, sessions
from support.gates import BOUND_SECONDS
from support.http_host import OTHER
from support.lending import Lending, Lent, client_of, lending
from support.loopback import NO_CERTIFICATES

pytestmark = pytest.mark.gate("run-tokens")

JSON_TYPE = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


async def within(tmp_path: Path, scenario: Any) -> None:
    async with asyncio.timeout(100), lending(tmp_path) as made:
        await scenario(made)


class Raw:
    """A client that sends what it is told to."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.session: dict[str, str] = {}

    async def post(self, body: Any, **headers: str) -> httpx.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = JSON_TYPE | self.session | {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.http.post("/mcp", content=data, headers=given)

    async def ask(self, method: str, params: Any = None, id_: Any = 1, **headers: str) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}
        return await self.post(body, **headers)

    async def begin(self) -> str:
        answer = await self.ask("initialize", HELLO)
        assert answer.status_code == 200, answer.text
        self.session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        return self.session["mcp-session-id"]

    async def call(self, tool: str, id_: Any = 1, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments}, id_)
        assert answer.status_code == 200, answer.text
        lines = [line for line in answer.text.splitlines() if line and not line.startswith((":", "event:"))]
        found: dict[str, Any] = json.loads(lines[-1].removeprefix("data: "))["result"]
        return found


@asynccontextmanager
async def raw(made: Lending, token: str) -> AsyncIterator[Raw]:
    headers = {"authorization": f"Bearer {token}"}
    url = made.served.url
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=BOUND_SECONDS, verify=NO_CERTIFICATES
    ) as http:
        yield Raw(http)


def said_no(answer: httpx.Response, reason: str) -> None:
    """A problem document with one of our codes."""
    assert answer.status_code == 401, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    told = answer.json()
    assert (told["code"], told["details"].get("reason")) == ("unauthorized", reason)


async def cannot_connect(lent: Lent, token: str | None = None) -> None:
    """The official client does not get in, whichever way it tries."""
    for mode in ("legacy", "2026-07-28", "auto"):
        with pytest.raises(BaseExceptionGroup):
            async with client_of(lent, mode, token) as client:
                await client.list_tools()


@pytest.mark.gate("refused-run-tokens")
async def test_wrong_foreign_expired_and_ended_tokens_are_refused_and_audited(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        victim, lent = await made.open(conversation_id="a"), await made.open(conversation_id="b")
        for wrong in ("hostler_run_guessed", victim.token[:-1], victim.token + "x"):
            async with raw(made, wrong) as client:
                said_no(await client.ask("initialize", HELLO), "wrong")
        await cannot_connect(lent, "hostler_run_guessed")
        async with raw(made, victim.token) as mine, raw(made, lent.token) as other:
            other.session = {"mcp-session-id": await mine.begin()}
            said_no(await other.ask("tools/list"), "foreign")
            said_no(await other.http.delete("/mcp", headers=other.session), "foreign")
            assert (await mine.ask("tools/list")).status_code == 200
            victim.end()
            await made.over(victim.run_id)
            said_no(await mine.ask("tools/list"), "ended")
            said_no(await mine.ask("tools/call", {"name": "toolbox.echo"}), "ended")
        await cannot_connect(victim)
        async with raw(made, lent.token) as client:
            await client.begin()
            made.served.host.assets._clock = lambda: time.time() + 3_700
            said_no(await client.ask("tools/list"), "expired")
        await cannot_connect(lent)
        facts = [(fact["body"]["reason"], fact["target"]) for fact in await made.audited()]
        assert {("wrong", "unknown"), ("foreign", victim.run_id)} < set(facts)
        assert {("ended", victim.run_id), ("expired", lent.run_id)} < set(facts)
        assert "hostler_run_" not in str(await made.audited())
        async with made.served.as_key(await made.served.key(OTHER)) as stranger:
            assert (await stranger.get("/v1/audit")).json()["items"] == []
        lent.end()

    await within(tmp_path, scenario)


async def test_a_stranger_who_guesses_is_slowed_down_and_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        async with raw(made, "hostler_run_guessed") as client:
            made.served.server.app.assets._failures = TokenBuckets(
                1.0, 5.0, clock=lambda: 0.0, max_buckets=10
            )
            statuses = [(await client.ask("ping")).status_code for _ in range(8)]
            assert statuses == [401] * 5 + [429] * 3
            assert len(await made.audited()) == 5
            bare = client.http
            for headers in (
                {"authorization": ""},
                {"authorization": "Basic eDp5"},
                {"authorization": f"Bearer {'x' * 600}"},
            ):
                answer = await bare.post(f"{made.served.url}/mcp", content=b"{}", headers=headers)
                assert answer.status_code == 401
                assert answer.json()["error"]["data"]["code"] == "unauthorized"

    await within(tmp_path, scenario)


BODIES: list[tuple[Any, int, Any]] = [
    (b"", 400, -32700),
    (b"{", 400, -32700),
    (b"\xff\xfe", 400, -32700),
    (b"[" * 100_000, 400, -32700),
    (b'{"a":' * 50_000, 400, -32700),
    ([], 400, -32600),
    ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], 400, -32600),
    ("text", 400, -32600),
    ({"id": 1, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": "i" * 200, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": 7}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, 404, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "m" * 10_000}, 404, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "-1"}}, 400, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": 5}}, 400, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, 400, -32602),
    (
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": []}},
        400,
        -32602,
    ),
]
ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("history_page", {"limits": 5}, "did you mean 'limit'?"),
    ("history_page", {"run_id": "other"}, "takes no 'run_id'"),
    ("history_page", {"limit": "many"}, "Expected `int`"),
    ("state_get", {"scope": "conversation"}, "missing required field `key`"),
    ("artifact_read", {"artifact_id": 7}, "Expected `str`"),
    ("call_tool", {"tool_name": "toolbox.echo", "parameters": []}, "Expected `object`"),
]


async def test_whatever_is_sent_the_answer_says_what_is_wrong_and_the_session_goes_on(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        async with raw(made, lent.token) as client:
            missing = await client.ask("tools/list")
            assert (missing.status_code, missing.json()["error"]["code"]) == (400, -32600)
            await client.begin()
            for body, status, code in BODIES:
                answer = await client.post(body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), (body, answer)
            for tool, arguments, words in ARGUMENTS:
                answer = await client.ask("tools/call", {"name": tool, "arguments": arguments}, "i")
                error = answer.json()
                assert (error["id"], error["error"]["code"]) == ("i", -32602), error
                assert words in error["error"]["message"]
            deep: Any = {}
            for _ in range(200):
                deep = {"x": deep}
            nested = await client.call("toolbox.echo", value=deep)
            assert nested["structuredContent"]["error"]["code"] == "invalid_argument"
            assert (await client.post(b"x" * (1024 * 1024 + 1))).status_code == 413
            assert (await client.ask("ping", content_type="text/plain")).status_code == 415
            assert (await client.ask("ping", mcp_session_id="none")).status_code == 404
            old = await client.ask("ping", mcp_protocol_version="2024-01-01")
            assert old.json()["error"]["data"]["requested"] == "2024-01-01"
            for method in ("GET", "PUT"):
                answer = await client.http.request(method, "/mcp", headers=client.session)
                assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, OPTIONS, POST")
            assert (await client.ask("ping", origin="http://evil.example")).status_code == 403
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}
            for body in (
                note,
                note | {"params": {"requestId": 99}},
                {"jsonrpc": "2.0", "id": 1, "result": {}},
            ):
                assert (await client.post(body)).status_code == 202
            assert (await client.ask("ping", id_=7)).json() == {"jsonrpc": "2.0", "id": 7, "result": {}}
            assert (await client.call("toolbox.echo", value=1))["content"] == [{"type": "text", "text": "1"}]
            assert (await client.http.delete("/mcp", headers=client.session)).status_code == 204
            assert (await client.ask("ping")).status_code == 404
        lent.end()
        assert (await made.over(lent.run_id))["status"] == "completed"

    await within(tmp_path, scenario)


async def test_a_request_without_a_session_has_to_agree_with_its_headers(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        version, key = "2026-07-28", "io.modelcontextprotocol/"
        meta = {key + "protocolVersion": version, key + "clientCapabilities": {}}
        right = {"mcp_protocol_version": version, "mcp_method": "tools/call", "mcp_name": "toolbox.echo"}
        params = {"name": "toolbox.echo", "arguments": {"value": 1}, "_meta": meta}
        async with raw(made, lent.token) as client:
            answer = (await client.ask("tools/call", params, **right)).json()["result"]
            assert (answer["resultType"], answer["content"][0]["text"]) == ("complete", "1")
            for wrong, code in (
                ({"mcp_method": "tools/list"}, -32020),
                ({"mcp_name": "toolbox.keep"}, -32020),
                ({"mcp_name": "=?base64?%%%?="}, -32020),
            ):
                refused = await client.ask("tools/call", params, **(right | wrong))
                assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
            bare = await client.ask("tools/call", params | {"_meta": {}}, **right)
            assert bare.json()["error"]["code"] == -32602
        async with client_of(lent, "auto") as found:
            assert isinstance(found, Client)
            assert found.protocol_version == version
        lent.end()

    await within(tmp_path, scenario)


async def test_sessions_and_calls_of_a_token_have_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
        monkeypatch.setattr(sessions, "MAX_CALLS", 2)
        async with raw(made, lent.token) as one, raw(made, lent.token) as two, raw(made, lent.token) as three:
            await one.begin()
            await two.begin()
            await three.begin()
            assert (await one.ask("ping")).status_code == 404  # the longest unused made room
            holds = [
                asyncio.create_task(client.call("toolbox.hold", id_="h", name=name))
                for client, name in ((two, "a"), (three, "b"))
            ]
            for name in ("a", "b"):
                await lent.own_call("toolbox.held", name=name)
            assert (await one.ask("initialize", HELLO)).status_code == 429
            full = await two.call("toolbox.echo", id_=2, value=1)
            assert full["structuredContent"]["error"]["code"] == "rate_limited"
            again = await two.ask("tools/call", {"name": "toolbox.echo"}, "h")
            assert again.json()["error"]["message"] == "a request with this id is in progress already"
            for name in ("a", "b"):
                await lent.own_call("toolbox.release", name=name)
            assert [one["content"][0]["text"] for one in await asyncio.gather(*holds)] == ["a", "b"]
            assert (await two.call("toolbox.echo", value=2))["content"][0]["text"] == "2"
        lent.end()

    await within(tmp_path, scenario)


async def test_an_answer_that_takes_its_time_is_a_stream_that_is_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        monkeypatch.setattr(gateway, "QUICK_SECONDS", 0.01)
        monkeypatch.setattr(gateway, "COMMENT_SECONDS", 0.01)
        async with raw(made, lent.token) as client:
            await client.begin()
            params = {"name": "toolbox.hold", "arguments": {"name": "h"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            headers = JSON_TYPE | client.session
            async with client.http.stream("POST", "/mcp", json=body, headers=headers) as answer:
                assert answer.headers["content-type"] == "text/event-stream"
                lines = answer.aiter_lines()
                assert (await anext(lines)).startswith(":")
                await lent.own_call("toolbox.release", name="h")
                found = [line async for line in lines if line.startswith("data: ")]
            assert json.loads(found[0].removeprefix("data: "))["result"]["content"][0]["text"] == "h"
        lent.end()

    await within(tmp_path, scenario)
