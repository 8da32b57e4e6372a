"""Every route by a front-end token: refused unless it says so, and then nothing of a neighbour is there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from hostler.http.app import ENDPOINTS
from hostler.http.endpoint import Endpoint, endpoint
from hostler.http.responses import Empty
from hostler.storage.port import Tx
from support.front_ends import FrontEnd, front_end
from support.http_host import OTHER, WORKSPACE, Served, serving
from support.pauses import call, open_pause, open_run, park, rule
from support.route_walk import NARROW, path_of

pytestmark = pytest.mark.gate("front-end-tokens")

MESSAGE = {"event_type": "message.received", "input": {"text": "say 0"}}
SAID = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "say 0"}]}
APPROVED = {
    "type": "dynamic-tool",
    "state": "approval-responded",
    "approval": {"id": "call_<it>_k1", "approved": True},
}
RESULT = {"role": "tool", "tool_call_id": "call_<it>_k1", "content": "sunny"}
OUTPUT = {"type": "function_call_output", "call_id": "call_<it>_k1", "output": "sunny"}
APPROVAL = {
    "type": "mcp_approval_response",
    "approval_request_id": f"mcpr_<it>_{'0' * 64}_k1",
    "approve": True,
}
NAMED_FILE = {"type": "file", "file_id": "<it>"}
BEGIN_RUNS = ("create_thread_run", "stream_thread_run", "wait_for_thread_run")
ENDLESS = {"stream_conversation", "stream_workspace", "stream_widget"}
BODIES: dict[str, dict[str, Any]] = {
    "send_to_chat": {"id": "<own>", "messages": [SAID]},
    "run_agent": {
        "threadId": "<own>",
        "runId": "r1",
        "messages": [{"id": "m1", "role": "user", "content": "say 0"}],
    },
    **{name: {"assistant_id": "<agent>", "input": "say 0"} for name in BEGIN_RUNS},
    "get_thread_history": {},
    "create_chat_completion": {"model": "<agent>", "messages": [{"role": "user", "content": "say 0"}]},
    "create_response": {"model": "<agent>", "input": "say 0"},
    "post_event": MESSAGE,
    "act_on_pause": {"revision": 0, "actions": [{"call_id": "k1", "type": "deny", "args_hash": "x"}]},
    "act_on_conversation": {
        "conversation_id": "any",
        "tool_actions": [{"call_id": "k1", "decision": "denied", "args_hash": "x"}],
    },
}
KINDS = {
    "run_id": "run",
    "artifact_id": "artifact",
    "conversation_id": "conversation",
    "pause_id": "pause",
    "agent": "agent",
    "chat": "conversation",
    "thread": "conversation",
    "message_id": "run",
    "completion_id": "run",
    "response_id": "run",
    "model_id": "agent",
    "name": "agent",
    "answer": "run",
    "widget": "widget",
}
PREFIXES = {"message_id": "msg_", "completion_id": "chatcmpl_", "response_id": "resp_", "answer": "run_"}
"""What ids of answers begin with, before the run's."""
TEXT_IN_QUERIES = {"name"}
"""What a query calls as paths call a thing: the name of a file that is uploaded."""
NAMES_NOTHING = {"list_models", "stream_widget"}
"""Routes whose requests name nothing: the answer is only what the token reaches."""
IN_BODIES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "post_event": [
        ("agent", {"agent": "<it>"}),
        ("conversation", {"conversation_id": "<it>"}),
        ("artifact", {"input": {"text": "x", "attachments": [{"artifact_id": "<it>"}]}}),
        ("artifact", {"input": {"contents": [{"type": "artifact", "artifact_id": "<it>"}]}}),
    ],
    "act_on_pause": [],
    "act_on_conversation": [("conversation", {"conversation_id": "<it>"})],
    "send_to_chat": [
        ("conversation", {"id": "<it>"}),
        ("conversation", {"id": "<it>", "trigger": "regenerate-message"}),
        ("run", {"trigger": "regenerate-message", "messageId": "msg_<it>"}),
        ("run", {"messages": [{"id": "msg_<it>", "role": "assistant", "parts": [APPROVED]}]}),
    ],
    "stop_chat": [],
    "run_agent": [
        ("conversation", {"threadId": "<it>"}),
        ("run", {"resume": [{"interruptId": "call_<it>_k1.x"}], "messages": []}),
    ],
    "stop_thread": [],
    **{
        name: [
            ("agent", {"assistant_id": "<it>"}),
            ("run", {"command": {"resume": {"call_<it>_k1.x": True}}, "input": None}),
            ("artifact", {"input": {"messages": [{"role": "user", "content": [NAMED_FILE]}]}}),
        ]
        for name in BEGIN_RUNS
    },
    "get_thread_history": [],
    "cancel_thread_run": [],
    "create_chat_completion": [
        ("agent", {"model": "<it>"}),
        ("conversation", {"metadata": {"conversation_id": "<it>"}}),
        ("run", {"messages": [RESULT]}),
        (
            "artifact",
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "<it>"}}]}]},
        ),
    ],
    "create_response": [
        ("agent", {"model": "<it>"}),
        ("conversation", {"conversation": "<it>"}),
        ("conversation", {"conversation": {"id": "<it>"}, "input": [OUTPUT]}),
        ("run", {"previous_response_id": "resp_<it>"}),
        ("run", {"input": [OUTPUT]}),
        ("run", {"input": [APPROVAL]}),
        (
            "artifact",
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "<it>"}]}]},
        ),
    ],
    "cancel_response": [],
    "cancel_run": [],
    "cancel_pause": [],
    "upload_artifact": [],
}
"""Places of bodies that name something; by hand for each route that has a body."""


def test_what_takes_front_end_tokens_is_decided() -> None:
    assert {one.name for one in ENDPOINTS if one.narrow is not None} == set(NARROW)
    with_body = {one.name for one in ENDPOINTS if one.narrow is not None and one.method != "GET"}
    assert with_body == set(IN_BODIES)


def test_a_path_that_cannot_be_checked_is_refused_when_it_is_declared() -> None:
    async def route(request: Any) -> Empty:
        return Empty()

    for path, narrow in (("/v1/threads/{thread_id}", ()), ("/v1/runs", ("workspace_id",))):
        with pytest.raises(ValueError, match="cannot be checked"):
            endpoint("GET", path, right="runs:read", tag="x", narrow=narrow)(route)


NOTHING = ('"items":[]', "RUN_ERROR", "previous_response_id: there is no response", "of this run waits")
"""Answers beside a 404 that show nothing."""


async def ask(client: httpx.AsyncClient, one: Endpoint, path: str, **more: Any) -> httpx.Response:
    if one.reads_body:
        more.setdefault("json", BODIES.get(one.name, {}))
    async with client.stream(one.method, path, **more) as answer:
        if one.name not in ENDLESS or answer.status_code != 200:
            await answer.aread()
    return answer


async def test_every_other_route_refuses_a_front_end_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, front_end(served) as page:
        asked = 0
        for one in ENDPOINTS:
            if one.right is None and not one.signed_in:
                continue
            served.server.app.state.token_rates.burst = 10_000.0
            answer = await ask(page.client, one, path_of(one))
            if one.narrow is not None:
                assert answer.status_code not in (401, 403), (one.name, answer.text)
                continue
            assert answer.status_code in (401, 403), (one.name, answer.text)
            assert one.signed_in or "front-end tokens reach" in answer.text, one.name
            asked += 1
        assert asked > 60
        mcp = await page.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert mcp.status_code == 403


async def things_of(page: FrontEnd, served: Served, name: str, workspace: str = WORKSPACE) -> dict[str, str]:
    """One of everything in the conversation of a page, made by the page where it can."""
    run = (await page.send("remember k v")).json()
    stored = (await page.client.post("/v1/artifacts", content=name.encode())).json()

    def work(tx: Tx) -> None:
        open_run(tx, f"run of {name}", workspace, conversation_id=page.conversation, requester=name)
        open_pause(tx, call(rule=rule("*")), run_id=f"run of {name}", pause_id=f"pause of {name}")
        park(tx, f"run of {name}")

    await served.host.db.write(work)
    return {
        "run": run["run_id"],
        "artifact": stored["artifact_id"],
        "conversation": page.conversation,
        "pause": f"pause of {name}",
        "agent": page.made["agent"],
        "widget": "of-the-entries",
    }


def requests(
    one: Endpoint, kind: str, value: str, own: dict[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths and further arguments of requests that name something of a kind, at each place."""
    plain = {name: own[KINDS[name]] for name in one.parameters}

    def path(parameters: dict[str, str]) -> str:
        ids = {name: PREFIXES.get(name, "") + text for name, text in parameters.items()}
        return one.path.format(**{name: quote(text, safe="") for name, text in ids.items()})

    for name in one.parameters:
        if KINDS[name] == kind:
            yield path({**plain, name: value}), {}
    fields = [] if one.query is None else [field.encode_name for field in msgspec.structs.fields(one.query)]
    for name in fields:
        if KINDS.get(name) == kind and name not in TEXT_IN_QUERIES:
            named = PREFIXES.get(name, "") + value
            yield path(plain), {"params": {name: named, "q": "say"} if "q" in fields else {name: named}}
    for of, body in IN_BODIES.get(one.name, []):
        if of == kind:
            text = msgspec.json.encode({**BODIES[one.name], **body}).decode()
            text = text.replace("<it>", value).replace("<own>", own["conversation"])
            text = text.replace("<agent>", own["agent"])
            yield path(plain), {"json": msgspec.json.decode(text)}


def shown(answer: httpx.Response, value: str) -> tuple[int, str]:
    """Status and content of an answer, with `<it>` in place of what was named."""
    text = answer.text
    for one in (value, quote(value, safe="")):
        text = re.sub(rf"(?<![^\W_]){re.escape(one)}(?!\w)", "<it>", text)
    return answer.status_code, text


async def test_what_neighbours_have_is_answered_like_what_nobody_has(tmp_path: Path) -> None:
    """The neighbours: a conversation of the same agent, one of another agent, one of another workspace."""
    async with asyncio.timeout(200), serving(tmp_path) as served:
        state = served.server.app.state
        state.token_rates.burst = 100_000.0
        await served.agent("another")
        await served.agent("puppet", OTHER)
        other = await served.key(OTHER, "admin")
        async with (
            front_end(served) as page,
            front_end(served) as near,
            front_end(served, agent="another", conversation_id=page.conversation) as beside,
            front_end(served, other, conversation_id=page.conversation) as far,
        ):
            own = await things_of(page, served, "own")
            neighbours = {
                "near": await things_of(near, served, "near"),
                "beside": await things_of(beside, served, "beside"),
                "far": await things_of(far, served, "far", OTHER),
            }
            tried: set[tuple[str, str]] = set()
            for one in ENDPOINTS:
                if one.narrow is None:
                    continue
                for who, things in neighbours.items():
                    for kind, value in things.items():
                        if value == own[kind] or (who, kind) == ("beside", "artifact"):
                            continue  # files are of a conversation, whoever talks there
                        for (path, more), (absent_path, absent_more) in zip(
                            requests(one, kind, value, own),
                            requests(one, kind, "absent-from-everywhere", own),
                            strict=True,
                        ):
                            answer = await ask(page.client, one, path, **more)
                            absent = await ask(page.client, one, absent_path, **absent_more)
                            found = shown(answer, value), shown(absent, "absent-from-everywhere")
                            assert found[0] == found[1], (one.name, who, kind)
                            shows = answer.status_code == 404 or any(text in answer.text for text in NOTHING)
                            assert shows, (one.name, who, kind, answer.text)
                            tried.add((one.name, kind))
            assert {name for name, _ in tried} == set(NARROW) - NAMES_NOTHING
            for path in ("/v1/runs", "/v1/pauses"):
                ids = {item.get("run_id") for item in (await page.client.get(path)).json()["items"]}
                assert ids <= {own["run"]}, path
            text = (await page.client.get(f"/v1/conversations/{page.conversation}/state")).text
            assert text.count('"key":"k"') == 1
            assert (await near.client.get(f"/v1/runs/{neighbours['near']['run']}")).json()[
                "status"
            ] == "completed"
