"""Nonsense for every route of every standard interface: each answers in its own words, and nothing fails."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.http.a2a.json_rpc import METHODS as A2A_METHODS
from hostler.http.a2a.wire import GivenPushConfig
from hostler.http.app import ENDPOINTS
from hostler.http.endpoint import Endpoint
from hostler.http.openapi import REFERENCE
from support.dialects.players import playing, script
from support.examples import examples
from support.http_host import Served
from support.http_nonsense import TEXTS, encoded, like, value

pytestmark = pytest.mark.gate("http-bounds", "fuzzed-http")

ROUTES = sorted(
    (one for one in ENDPOINTS if one.dialect is not None),
    key=lambda one: (one.method == "DELETE", one.path),  # what is deleted is used before
)
PER_ROUTE = examples(25, 150)
ANSWER_SECONDS = 2.0
"""A request that waits longer has found a run that waits for people, and is given up."""
MCP_METHODS = [
    *("initialize", "ping", "server/discover", "logging/setLevel", "tools/list", "tools/call", "tasks/get"),
    *("tasks/list", "tasks/cancel", "tasks/result", "tasks/update", "resources/list", "resources/read"),
    *("resources/templates/list", "prompts/list", "prompts/get", "completion/complete", "nothing"),
    *("notifications/initialized", "notifications/cancelled", "elicitation/create"),
]
TASK_VERBS = ["", ":cancel", ":subscribe", ":nothing", ":"]
HEADERS: dict[str, list[str]] = {
    "idempotency-key": ["k", "", "x" * 300],
    "last-event-id": ["1", "0", "-1", "x", "c2", "9" * 30],
    "hostler-on-disconnect": ["cancel", "continue", "x"],
    "hostler-conversation": ["place", "", "x" * 3000],
    "x-stainless-retry-count": ["1", "x"],
    "a2a-version": ["1.0", "0.3", "", "x"],
    "a2a-extensions": ["urn:hostler:a2a:requests:1", ",,", "x"],
    "mcp-protocol-version": ["2026-07-28", "2025-11-25", "x"],
    "mcp-method": ["tools/call", "x"],
    "mcp-name": ["player", "x", "=?base64?eA==?="],
    "mcp-session-id": ["x", ""],
    "accept": ["application/json", "text/event-stream", "text/html", "*/*;q=0", "x"],
    "content-type": ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"],
    "content-encoding": ["gzip", "x"],
    "x-api-key": ["wrong", ""],
    "origin": ["null", "https://elsewhere.example", "x"],
    "range": ["bytes=0-1", "x"],
    "prefer": ["wait=1", "x"],
}
USUAL = {
    "a2a": {"a2a-version": "1.0"},
    "mcp": {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "player",
    },
}
"""Headers without which a dialect looks no further."""

Known = dict[str, list[Any]]
"""What there is, by the names that it has in paths, queries and bodies."""


async def furnish(served: Served) -> Known:
    """Make a run that is over, and one that waits; return their names in all dialects."""
    said = await served.say("hi", agent="player", conversation_id="place", event_id="e")
    ask = script(["together", [["tool", "player.order", {"thing": "tea"}, "x"], ["ask", "Which size?"]]])
    asked = await served.say(ask, agent="player", conversation_id="waits", event_id="f")
    assert (said["status"], asked["status"]) == ("completed", "paused")
    runs = [said["run_id"], asked["run_id"]]
    (pause,) = (await served.client.get("/v1/pauses")).json()["items"]
    calls = [f"call_{runs[1]}_{call['call_id']}" for call in pause["calls"]]
    shown = [f"{name}.{call['args_hash'][:16]}" for name, call in zip(calls, pause["calls"], strict=True)]
    approvals = [f"mcpr_{runs[1]}_{call['args_hash']}_{call['call_id']}" for call in pause["calls"]]
    cron = {"assistant_id": "player", "schedule": "@yearly", "input": "x"}
    crons = (await served.client.post("/langgraph/runs/crons", json=cron)).json()
    items = (await served.client.get("/v1/conversations/place/items")).json()
    places = ["place", "waits", "new"]
    answers = {
        kind: [f"{kind}_{run}{end}" for run in runs for end in ("", "_1", "_x")]
        for kind in ("chatcmpl", "resp", "run", "msg", "task")
    }
    agents = ["player"]
    return {
        **dict.fromkeys(
            ("agent", "agent_id", "model", "model_id", "assistant", "assistant_id", "name"), agents
        ),
        **dict.fromkeys(("chat", "thread", "thread_id", "threadId", "conversation_id"), places),
        **dict.fromkeys(("conversation", "contextId", "context_id"), places),
        **{key: [*runs, *answers["task"]] for key in ("task", "taskId", "task_id")},
        **dict.fromkeys(("response_id", "previous_response_id"), answers["resp"]),
        **{key: [*answers["run"], *runs] for key in ("answer", "run_id")},
        **dict.fromkeys(("messageId", "message_id"), answers["msg"]),
        **dict.fromkeys(("toolCallId", "tool_call_id", "call_id"), calls),
        **{key: [*shown, *approvals] for key in ("interruptId", "approval_request_id")},
        "completion_id": answers["chatcmpl"],
        "item_id": [one["id"] for one in items["data"]],
        "checkpoint": answers["run"],
        "cron": [crons["cron_id"]],
        "push_config": ["p"],
        "uri": [f"hostler://conversations/{place}" for place in places],
        "id": [*shown, "place"],
        "role": ["user", "assistant", "tool", "ROLE_USER"],
        "jsonrpc": ["2.0"],
        "protocolVersion": ["2025-11-25"],
        "namespace": [["a", "b"]],
        "trigger": ["submit-message", "regenerate-message"],
    }


def right_bodies(known: Known) -> dict[str, list[Any]]:
    """Bodies that are understood, by the names of routes: what is wrong in them is put there afterwards."""
    call, shown, approval = known["call_id"][0], known["interruptId"][0], known["approval_request_id"][-1]
    waiting = {"thread_id": "waits", "taskId": known["taskId"][1]}
    said = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    a2a = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    parts = [{"data": {"id": shown, "approved": True}}]
    decided = {"message": {**a2a["message"], "taskId": waiting["taskId"], "parts": parts}}
    graph = {"assistant_id": "player", "input": {"messages": [{"type": "human", "content": "hi"}]}}
    resumed = {"assistant_id": "player", "command": {"resume": {shown: {"approved": False}}}}
    protocol = {"agent_id": "player", "thread_id": "new", "if_not_exists": "create", "messages": [said]}
    answered = {"thread_id": "waits", "agent_id": "player", "input": {shown: {"approved": False}}}
    agui = {"threadId": "place", "runId": "r", "messages": [{"id": "m", **said}]}
    part = {"type": "dynamic-tool", "toolName": "player.order", "toolCallId": call, "input": {}}
    ask = {"role": "assistant", "parts": [{**part, "approval": {"id": call, "approved": True}}]}
    cron = {**graph, "schedule": "@daily"}
    item = {"namespace": ["a"], "key": "k", "value": {"a": 1}}
    return {
        "create_chat_completion": [
            {"model": "player", "messages": [said], "stream": True, "tools": [], "metadata": {"a": "b"}},
            {"model": "player", "messages": [{"role": "tool", "tool_call_id": call, "content": "x"}]},
        ],
        "create_response": [
            {"model": "player", "input": [{"role": "user", "content": "hi"}], "stream": True, "tools": []},
            {
                "model": "player",
                "input": [
                    {"type": "mcp_approval_response", "approval_request_id": approval, "approve": True}
                ],
            },
        ],
        "run_agent": [
            {**agui, "tools": [], "context": [], "state": {}, "forwardedProps": {}},
            {**agui, "threadId": "waits", "resume": [{"interruptId": shown, "payload": {"approved": True}}]},
        ],
        "send_to_chat": [
            {"id": "place", "messages": [{"id": "m", "role": "user", "parts": said["content"]}]},
            {"id": "waits", "messages": [{**ask, "id": known["messageId"][0]}]},
        ],
        **{key: [a2a, decided] for key in ("send_a2a_message", "stream_a2a_message")},
        **{
            key: [
                graph,
                resumed,
                {**graph, "stream_mode": ["values", "custom"], "multitask_strategy": "reject"},
            ]
            for key in ("create_thread_run", "stream_thread_run", "wait_for_thread_run")
        },
        **{
            key: [graph, resumed, protocol]
            for key in ("create_stateless_run", "stream_stateless_run", "wait_for_stateless_run")
        },
        **{key: [answered] for key in ("resume_protocol_run", "wait_for_resumed_run", "stream_resumed_run")},
        "search_protocol_runs": [{"metadata": {"a": 1}, "status": "interrupted", "thread_id": "waits"}],
        "search_protocol_agents": [{"name": "player", "metadata": {"a": 1}}],
        "update_thread": [{"metadata": {"a": 1}, "messages": [said], "values": graph["input"]}],
        **{key: [cron] for key in ("create_cron", "create_thread_cron", "update_cron")},
        "put_store_item": [item],
        "delete_store_item": [item],
        "update_thread_state": [{"values": graph["input"], "as_node": "x"}],
        "post_message": [
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {
                    "name": "player",
                    "arguments": {"message": "hi"},
                    "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
                        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
                    },
                },
            },
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        ],
        "call_a2a": [
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            for method in ("SendMessage", "SendStreamingMessage")
            for params in (a2a, decided)
        ],
    }


def mutated(made: Any, dice: random.Random) -> Any:
    """Return a body with one place changed: another value, one twice, one more, or one that is missing."""
    if isinstance(made, dict) and made and dice.random() < 0.85:
        name = dice.choice(sorted(made))
        match dice.randrange(8):
            case 0:
                return {key: one for key, one in made.items() if key != name}
            case 1:
                return {**made, dice.choice(TEXTS): value(dice)}
            case _:
                return {**made, name: mutated(made[name], dice)}
    if isinstance(made, list) and made and dice.random() < 0.85:
        place = dice.randrange(len(made))
        twice = [made[place]] if dice.random() < 0.2 else []
        return [*made[:place], mutated(made[place], dice), *twice, *made[place + 1 :]]
    return value(dice)


def planted(made: Any, known: Known, dice: random.Random) -> Any:
    """Put names of what there is into a body, so that it gets further."""
    if isinstance(made, list):
        return [planted(one, known, dice) for one in made]
    if not isinstance(made, dict):
        return made
    return {
        name: dice.choice(known[name]) if name in known and dice.random() < 0.6 else planted(one, known, dice)
        for name, one in made.items()
    }


class Nonsense:
    """Makes requests of routes."""

    def __init__(self, known: Known, dice: random.Random) -> None:
        kinds = [one.body for one in ROUTES if one.reads_body and one.name != "call_a2a"]
        kinds += [one.query for one in ROUTES if one.query is not None]
        kinds += [method.params for method in A2A_METHODS.values()]
        kinds = list({repr(kind): kind for kind in [*kinds, GivenPushConfig]}.values())
        schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
        self._schemas = dict(zip(map(repr, kinds), schemas, strict=True))
        self._document = {"components": {"schemas": components}}
        self._right = right_bodies(known)
        self._known = known
        self._dice = dice

    def url(self, endpoint: Endpoint) -> str:
        path = endpoint.path
        for name in endpoint.parameters:
            text = self._text(name)
            verb = self._dice.choice(TASK_VERBS) if name == "task" and endpoint.method == "POST" else ""
            path = path.replace(f"{{{name}}}", encoded(text) + verb)
        queries = []
        if endpoint.query is not None:
            made = self._like(endpoint.query)
            for name, one in made.items() if isinstance(made, dict) else ():
                text = one if isinstance(one, str) else json.dumps(one)
                queries.append(f"{encoded(name)}={encoded(text)}")
        if self._dice.random() < 0.1:
            queries.append(f"{encoded(self._dice.choice(TEXTS))}={encoded(self._dice.choice(TEXTS))}")
        return path + ("?" + "&".join(queries) if queries else "")

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        assert endpoint.dialect is not None
        made = {"content-type": "application/json", **USUAL.get(endpoint.dialect.name, {})}
        for name in self._dice.sample(sorted(HEADERS), self._dice.choice([0, 0, 1, 2])):
            made[name] = self._dice.choice(HEADERS[name])
        return made

    def content(self, endpoint: Endpoint) -> bytes:
        if endpoint.method == "GET":
            return b""
        if self._dice.random() < 0.1:
            return bytes(self._dice.randrange(256) for _ in range(self._dice.randrange(40)))
        if endpoint.name in self._right and self._dice.random() < 0.6:
            made = self._dice.choice(self._right[endpoint.name])
            for _ in range(self._dice.choice([0, 1, 1, 1, 2])):
                made = mutated(made, self._dice)
            return json.dumps(made).encode()
        if endpoint.path == "/mcp":
            made = self._rpc(self._dice.choice(MCP_METHODS), value(self._dice))
            params = {"name": "player", "arguments": {"message": "hi"}, "uri": "", "_meta": value(self._dice)}
            if self._dice.random() < 0.7:
                made["params"] = params
        elif endpoint.name == "call_a2a":
            name = self._dice.choice([*A2A_METHODS, "Nothing"])
            kind = A2A_METHODS[name].params if name in A2A_METHODS else GivenPushConfig
            made = self._rpc(name, self._like(kind))
        else:
            made = self._like(endpoint.body) if endpoint.reads_body else value(self._dice)
        made = planted(made, self._known, self._dice)
        if self._dice.random() < 0.05:
            made = [made, made]
        return json.dumps(made).encode()

    def _rpc(self, method: str, params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self._dice.choice(["1", 1, None, [], 1.5]), "method": method} | {
            "params": params
        }

    def _like(self, kind: Any) -> Any:
        return planted(like(self._schemas[repr(kind)], self._document, self._dice), self._known, self._dice)

    def _text(self, name: str) -> str:
        if self._dice.random() < 0.6:
            return str(self._dice.choice(self._known[name]))
        text = self._dice.choice(TEXTS)
        return text if text.strip(".") else "x"  # those are another path


def check(endpoint: Endpoint, answer: httpx.Response, asked: Any) -> None:
    """Whether a refusal is one of the interface, and no failure of the host."""
    assert answer.status_code < 500, (*asked, answer.text)
    if answer.status_code < 400:
        return
    assert endpoint.dialect is not None
    if endpoint.dialect.name == "ai-sdk":
        assert answer.headers["content-type"].startswith("text/plain"), (*asked, answer.text)
        assert answer.headers["hostler-code"]
        return
    body = answer.json()
    match endpoint.dialect.name:
        case "openai":
            assert body["error"]["message"], asked
        case "ag-ui":
            assert (body["type"], bool(body["message"])) == ("RUN_ERROR", True), (*asked, body)
        case "langgraph":
            assert body["detail"], asked
        case _:
            assert body["error"]["code"] not in (-32603, 500), (*asked, body)
            assert body["error"]["message"], asked


async def attempt(served: Served, nonsense: Nonsense, endpoint: Endpoint) -> int | None:
    """Send one request; its status, or None if it waits."""
    url, content, headers = nonsense.url(endpoint), nonsense.content(endpoint), nonsense.headers(endpoint)
    request = served.client.build_request(endpoint.method, url, content=content, headers=headers)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await served.client.send(request, stream=True)
    except TimeoutError:
        return None
    try:
        if answer.status_code >= 400:
            await answer.aread()
        check(endpoint, answer, (endpoint.method, url, content, headers))
    finally:
        await answer.aclose()
    return answer.status_code


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.shows("openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "a2a", "langgraph", "hostile")
async def test_no_request_of_any_dialect_makes_the_host_fail(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    statuses: dict[str, list[int | None]] = defaultdict(list)
    with caplog.at_level(logging.WARNING):
        async with playing(tmp_path / "data", hold_seconds=0.05) as served:
            nonsense = Nonsense(await furnish(served), random.Random(seed))
            for endpoint in ROUTES:
                for _ in range(PER_ROUTE):
                    statuses[endpoint.name].append(await attempt(served, nonsense, endpoint))
            assert (await served.client.get("/readyz")).status_code == 200
            assert (await served.say("still there", agent="player"))["status"] == "completed"
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    assert "Traceback" not in caplog.text
    well = {name for name, found in statuses.items() if any(one and one < 300 for one in found)}
    assert len(well) > len(ROUTES) * 2 // 3, f"nonsense only of {set(statuses) - well}"
