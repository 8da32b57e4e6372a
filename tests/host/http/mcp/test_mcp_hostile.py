"""Messages that nobody means: never an error of the host, always one of JSON-RPC."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.http.mcp.levels import MAX_SESSION_LEVELS, SessionLevels
from support.dialects.mcp import (
    META,
    STATELESS,
    Wire,
    messages_in,
    result_in,
    stateless,
    stateless_headers,
    wire,
)
from support.dialects.players import player
from support.http_host import ADMIN_KEY, Served

PROMPT = "player.price"
PROMPTS = [{"name": "price", "text": "What is {thing}?", "arguments": [{"name": "thing", "required": True}]}]
CALL = {"name": "player", "arguments": {"message": "hi"}}
NO_TOKEN: dict[str, Any] = {"_meta": {"progressToken": []}}
BODIES: list[tuple[Any, int, int]] = [
    (b"", 400, -32700),
    (b"{", 400, -32700),
    (b"\xff\xfe", 400, -32700),
    (b"[" * 100_000, 400, -32700),
    ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], 400, -32600),
    ("text", 400, -32600),
    ({"id": 1, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": "i" * 200, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": "🙂" * 100, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 2**63, "method": "ping"}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "nothing/here"}, 200, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": 5}}, 200, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "loud"}}, 200, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, 200, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL | {"task": 5}}, 200, -32602),
    (
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": CALL | NO_TOKEN,
        },
        200,
        -32602,
    ),
    ({"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": {"argument": 1}}, 200, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "prompts/list", "params": {"cursor": {}}}, 200, -32602),
    *(
        ({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params}, 200, -32602)
        for params in (
            {},
            {"name": 5},
            {"name": "player"},
            {"name": "player.none"},
            {"name": "player.price.price"},
            {"name": PROMPT, "arguments": []},
            {"name": PROMPT, "arguments": {}},
            {"name": PROMPT, "arguments": {"thing": ""}},
            {"name": PROMPT, "arguments": {"thing": 5}},
            {"name": PROMPT, "arguments": {"thing": None}},
            {"name": PROMPT, "arguments": {"thing": "x" * 100_000}},
            {"name": PROMPT, "arguments": {"thing": "x", "other": "x"}},
        )
    ),
    *(
        ({"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": params}, 200, -32602)
        for params in (
            {"ref": {"type": "ref/prompt"}, "argument": {"name": "thing", "value": ""}},
            {"ref": {"type": "ref/prompt", "name": []}, "argument": {"name": "thing", "value": ""}},
            {"ref": {"type": "ref/prompt", "name": PROMPT}, "argument": {"name": "other", "value": ""}},
        )
    ),
]


async def test_each_wrong_message_is_told_what_is_wrong(served: Served) -> None:
    await player(served, prompts=PROMPTS)
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        for body, status, code in BODIES:
            answer = await client.post(body)
            assert answer.status_code == status, (body, answer.text)
            assert answer.json()["error"]["code"] == code, (body, answer.text)
            assert answer.json()["error"]["message"]
        typed = await client.post(b"{}", content_type="text/plain")
        assert (typed.status_code, typed.json()["error"]["code"]) == (415, -32600)
    assert (await served.client.get("/v1/runs")).json()["items"] == []


async def test_sessions_are_of_their_key(served: Served) -> None:
    other = await served.key("default", "admin")
    async with wire(served.url, ADMIN_KEY) as client, wire(served.url, other) as stranger:
        bare = await client.ask("ping")
        assert (bare.status_code, bare.json()["error"]["code"]) == (400, -32600)
        session = await client.begin()
        assert result_in(await client.ask("ping")) == {}
        for id_ in (session + "x", "made up", session[:-3] + "xxx"):
            client.session["mcp-session-id"] = id_
            lost = await client.ask("ping")
            assert (lost.status_code, lost.json()["id"]) == (404, 1)
            assert lost.json()["error"]["message"].startswith("there is no such session")
        stranger.session = {"mcp-session-id": session}
        assert (await stranger.ask("ping")).json()["error"]["message"].startswith("there is no such session")
        assert (await client.http.delete("/mcp")).status_code == 405


async def test_headers_of_a_stateless_request_have_to_agree(served: Served) -> None:
    request = stateless("tools/call", CALL)
    right = stateless_headers(request["params"], "tools/call")
    lacking = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with wire(served.url, ADMIN_KEY) as client:
        assert (await client.post(request, **right)).status_code == 200
        wrong: list[tuple[Any, dict[str, str], int]] = [
            (request, right | {"mcp-method": "tools/list"}, -32020),
            (request, right | {"mcp-name": "other"}, -32020),
            (request, {name: text for name, text in right.items() if name != "mcp-name"}, -32020),
            (request, right | {"mcp-name": "=?base64?%%?="}, -32020),
            (request, right | {"mcp-protocol-version": "2031-01-01"}, -32022),
            (lacking, {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list"}, -32602),
            (stateless("nothing"), {"mcp-protocol-version": STATELESS, "mcp-method": "nothing"}, -32601),
        ]
        for body, headers, code in wrong:
            answer = await client.post(body, **headers)
            assert answer.status_code == (404 if code == -32601 else 400), answer.text
            assert answer.json()["error"]["code"] == code
        loud = stateless("tools/call", CALL | {"_meta": {f"{META}logLevel": "loud"}})
        assert (await client.post(loud, **right)).json()["error"]["code"] == -32602


@pytest.mark.parametrize("origin", ["https://evil.example", "http://evil.example:1", "null", "http://[", "x"])
async def test_pages_of_other_origins_are_refused(served: Served, origin: str) -> None:
    """Also one whose name was pointed at this machine."""
    async with wire(served.url, ADMIN_KEY) as client:
        host = origin.partition("//")[2] or "x"
        for headers in ({"origin": origin}, {"origin": origin, "host": host}):
            answer = await client.ask("ping", **headers)
            assert answer.status_code == 403
            assert answer.json()["error"]["code"] == -32600
        own = f"http://127.0.0.1:{served.port}"
        await client.begin()
        assert (await client.ask("ping", origin=own)).status_code == 200


def test_levels_of_sessions_are_bounded() -> None:
    levels = SessionLevels()
    for number in range(MAX_SESSION_LEVELS + 5):
        levels.set(str(number), "error")
    assert levels.get("0") == "info"
    assert levels.get("5") == "error"
    assert len(levels._levels) == MAX_SESSION_LEVELS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        *("initialize", "ping", "tools/list", "tools/call", "tasks/get", "tasks/result", "tasks/list"),
        *("tasks/cancel", "tasks/update", "resources/list", "resources/read", "resources/templates/list"),
        *("prompts/list", "prompts/get", "completion/complete", "logging/setLevel", "server/discover"),
        *("notifications/cancelled", "subscriptions/listen"),
    ]
)
NAMES = st.sampled_from(
    [
        *("name", "arguments", "task", "cursor", "taskId", "uri", "argument", "ref", "level", "requestId"),
        *("inputResponses", "requestState", "protocolVersion", "capabilities", "_meta"),
    ]
)
VALUES = st.one_of(
    JSON,
    st.just("player"),
    st.just(PROMPT),
    st.just({"thing": "\x00{thing}"}),
    st.just({"type": "ref/prompt", "name": PROMPT}),
    st.just({"name": "thing", "value": ""}),
    st.just({"message": "\x00"}),
    st.just({"message": "x", "conversation_id": "\x00"}),
    st.just({"message": "x", "files": [{"artifact_id": "\x00"}]}),
    st.just("task_r"),
    st.just("hostler://runs/%00"),
    st.just({"call_r_c.0.1": {"action": "accept"}}),
)


@pytest.mark.shows("mcp", "hostile")
async def test_no_message_is_an_error_of_the_host(served: Served) -> None:
    await player(served, prompts=PROMPTS)
    loop = asyncio.get_running_loop()

    async def send(
        client: Wire, method: str, params: dict[str, Any], id_: Any, modern: bool
    ) -> httpx.Response:
        if not modern:
            return await client.post({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        request = stateless(method, {name: value for name, value in params.items() if name != "_meta"}, id_)
        headers = stateless_headers({}, method)
        name = next(
            (params[one] for one in ("name", "uri", "taskId") if isinstance(params.get(one), str)), None
        )
        if name is not None and name.isascii() and name.isprintable():
            headers["mcp-name"] = name
        return await client.post(request, **headers)

    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()

        @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
        @given(METHODS, st.dictionaries(NAMES, VALUES, max_size=4), JSON, st.booleans())
        def check(method: str, params: dict[str, Any], id_: Any, modern: bool) -> None:
            sending = send(client, method, params, id_, modern)
            answer = asyncio.run_coroutine_threadsafe(sending, loop).result(60)
            where = (method, params, id_, modern, answer.text[:300])
            assert answer.status_code < 500, where
            if answer.status_code == 202:
                return
            for message in messages_in(answer):
                assert message["jsonrpc"] == "2.0", where
            last = messages_in(answer)[-1]
            assert ("result" in last) != ("error" in last), where
            if "error" in last:
                assert isinstance(last["error"]["code"], int), where
                assert last["error"]["message"], where
                json.dumps(last)

        await asyncio.to_thread(check)
