"""Requests that are wrong: an error as A2A has it, by both bindings, and never a failure of the host."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import httpx
import pytest
from a2a.types import SendMessageRequest
from a2a.utils.errors import A2A_ERROR_MAPPING, JSON_RPC_ERROR_CODE_MAP, A2AError, VersionNotSupportedError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.http.a2a.dialect import MEANINGS
from support.dialects.a2a import TOOLS, a2a_client, context, message, told
from support.dialects.players import playing
from support.http_host import ADMIN_KEY, Served
from support.loopback import NO_CERTIFICATES

VERSION = {"A2A-Version": "1.0"}
SENT = {"messageId": "m", "parts": [{"text": "x"}]}
CODES = frozenset({*JSON_RPC_ERROR_CODE_MAP.values(), -32000})
REASONS = frozenset(one.reason for one in A2A_ERROR_MAPPING.values())
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
NAMES = st.sampled_from(
    ["messageId", "parts", "role", "contextId", "taskId", "metadata", "text", "raw", "url", "data", "id"]
)
PARTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=3)
MESSAGES = st.fixed_dictionaries(
    {"messageId": VALUES, "parts": PARTS | VALUES},
    optional={"role": VALUES, "taskId": VALUES, "contextId": VALUES, "metadata": VALUES},
)
METHODS = st.sampled_from(["SendMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "X"])


def check_rpc(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code < 500, answer.text
    body: dict[str, Any] = answer.json()
    assert body["jsonrpc"] == "2.0"
    error: dict[str, Any] = body["error"]
    assert error["code"] in CODES or error["code"] == -32700
    assert error["message"]
    assert error["data"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert all(isinstance(value, str) for value in error["data"][0]["metadata"].values())
    return error


def check_rest(answer: httpx.Response) -> dict[str, Any]:
    assert 400 <= answer.status_code < 500, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == answer.status_code
    assert error["status"].isupper()
    assert error["details"][0]["domain"] == "a2a-protocol.org"
    return error


def nested(depth: int) -> Any:
    """A list in a list, so many times."""
    return [nested(depth - 1)] if depth else 1.0


RPC: list[tuple[Any, int]] = [
    (b"", -32700),
    (b"{", -32700),
    (b"\xff", -32700),
    (b"[" * 60_000, -32700),
    ([], -32600),
    ({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}, -32600),
    ({"jsonrpc": "2.0", "method": "GetTask"}, -32600),
    ({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}, -32600),
    ({"jsonrpc": "2.0", "id": "i" * 401, "method": "GetTask"}, -32600),
    ({"jsonrpc": "2.0", "id": 2**63, "method": "GetTask"}, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": SENT}}, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x\x00"}}, -32001),
    ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x", "historyLength": -1}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": []}}}, -32602),
]
WRONG: list[Any] = [
    {},
    {"message": {"messageId": "", "parts": [{"text": "x"}]}},
    {"message": {"messageId": "m", "parts": []}},
    {"message": {"messageId": "m", "parts": [{}]}},
    {"message": {"messageId": "m", "parts": [{"text": "x", "url": "http://x"}]}},
    {"message": {"messageId": "m", "parts": [{"raw": "&&"}]}},
    {"message": {"messageId": "m", "parts": [{"url": "file:///etc/passwd"}]}},
    {"message": {"messageId": "m", "parts": [{"text": "x"}] * 1_001}},
    {"message": {**SENT, "role": "ROLE_AGENT"}},
    {"message": {**SENT, "contextId": "x" * 401}},
    {"message": {**SENT, "contextId": "\x00"}},
    {"message": {**SENT, "metadata": {TOOLS: {"tools": [{"description": "no name"}]}}}},
    {"message": {**SENT, "metadata": {TOOLS: 7}}},
    {"message": {**SENT, "taskId": "nothing"}},
    {"message": {"messageId": "m", "parts": [{"data": {"id": "call_a_b.c", "approved": True}}]}},
    *(
        {"message": {"messageId": "m", "parts": [{"data": {"id": "call_a_b.c", "result": deep}}]}}
        for deep in (nested(depth) for depth in (200, 450, 900))
    ),
]


async def test_what_is_wrong_is_named(host: Served) -> None:
    for body, code in RPC:
        content = body if isinstance(body, bytes) else json.dumps(body)
        answer = await host.client.post(
            "/a2a/player", content=content, headers={**VERSION, "content-type": "application/json"}
        )
        assert check_rpc(answer)["code"] == code, (body, answer.text)
    for body in WRONG:
        for verb in ("send", "stream"):
            answer = await host.client.post(f"/a2a/player/message:{verb}", json=body, headers=VERSION)
            assert check_rest(answer)["details"][0]["reason"] in REASONS, (body, answer.text)
        call = {"jsonrpc": "2.0", "id": "é", "method": "SendStreamingMessage", "params": body}
        answer = await host.client.post("/a2a/player", json=call, headers=VERSION)
        assert check_rpc(answer)
        assert answer.json()["id"] == "é"
    for method, path in (
        ("GET", "/a2a/player/tasks?pageSize=x"),
        ("GET", "/a2a/player/tasks?statusTimestampAfter=soon"),
        ("GET", "/a2a/player/tasks/none:nothing"),
        ("POST", "/a2a/player/tasks/none"),
        ("DELETE", "/a2a/player/tasks"),
        ("GET", "/a2a/%ff/tasks"),
    ):
        check_rest(await host.client.request(method, path, headers=VERSION))


@pytest.mark.parametrize("version", ["", "0.3", "2.0", "1.1", "1", "x", "1.0.1"])
async def test_another_version_is_refused(host: Served, binding: str, version: str) -> None:
    good = version == "1.0.1"
    async with a2a_client(host.url, binding=binding) as client:
        sent = client.send_message(
            SendMessageRequest(message=message("x")), context=context(A2A_Version=version)
        )
        with contextlib.nullcontext() if good else pytest.raises(VersionNotSupportedError, match=r"1\.0"):
            assert [event async for event in sent]
    answer = await host.client.get("/a2a/player/tasks", params={"A2A-Version": version})
    assert (answer.status_code == 200) is good, answer.text


async def test_a_front_end_token_is_refused(host: Served) -> None:
    body = {
        "agent": "player",
        "conversation_id": "c",
        "rights": ["events:write", "runs:read"],
        "minutes": 1,
    }
    made = await host.client.post("/v1/tokens", json=body)
    assert made.status_code in (200, 201), made.text
    async with host.as_key(made.json()["token"]) as page:
        check_rest(await page.post("/a2a/player/message:send", json={"message": SENT}, headers=VERSION))
        assert (await page.post("/a2a/player", json={}, headers=VERSION)).status_code == 403


@pytest.mark.shows("a2a", "hostile")
async def test_any_body_is_answered_in_the_shape_of_its_binding(tmp_path_factory: Any) -> None:
    async with playing(tmp_path_factory.mktemp("host")) as host:
        async with httpx.AsyncClient(
            base_url=host.url,
            headers={"authorization": f"Bearer {ADMIN_KEY}", **VERSION},
            timeout=60,
            verify=NO_CERTIFICATES,
        ) as client:
            await _fuzz(client)
        async with a2a_client(host.url) as client_of_a2a:
            assert (await told(client_of_a2a, message("still there"))).texts == ["you said: still there"]


async def _fuzz(client: httpx.AsyncClient) -> None:
    bodies: list[tuple[Any, Any]] = []

    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(MESSAGES | VALUES, METHODS, VALUES, VALUES)
    def collect(message_: Any, method: str, params: Any, request_id: Any) -> None:
        given_ = {"message": message_, "configuration": {"returnImmediately": True}}
        bodies.append((given_, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}))
        bodies.append((params, {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": given_}))

    collect()
    for rest, rpc in bodies:
        answer = await client.post("/a2a/player/message:send", json=rest)
        if answer.status_code != 200:
            check_rest(answer)
        answer = await client.post("/a2a/player", json=rpc)
        if "result" not in answer.json():
            check_rpc(answer)


def test_every_reason_has_the_code_that_clients_know() -> None:
    known: dict[str, type[A2AError]] = {one.reason: kind for kind, one in A2A_ERROR_MAPPING.items()}
    for reason, meaning in MEANINGS.items():
        if reason == "PARSE_ERROR":
            continue
        assert JSON_RPC_ERROR_CODE_MAP[known[reason]] == meaning.code
        assert A2A_ERROR_MAPPING[known[reason]].grpc_status == meaning.name
