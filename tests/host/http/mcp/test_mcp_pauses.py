"""What a run waits for, asked by MCP's own forms; and where a client has no user, told as text."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult, InputRequiredResult

from support.dialects.mcp import (
    GENERATIONS,
    Heard,
    accept,
    mcp_client,
    messages_in,
    result_in,
    texts_of,
    wire,
)
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served

ORDER = ["tool", "player.order", {"thing": "灯 🙂"}, "a"]
ORDERED = 'player.order: "ordered 1 灯 🙂"'
DECLINE = ElicitResult(action="decline")
both = pytest.mark.parametrize("mode", GENERATIONS)


async def order(client: Client, *steps: Any) -> Any:
    return await client.call_tool("player", {"message": script(*(steps or (ORDER,)))})


async def open_pauses(served: Served, count: int = 1) -> list[dict[str, Any]]:
    async with asyncio.timeout(30):
        while True:
            found: list[dict[str, Any]] = (await served.client.get("/v1/pauses?status=open")).json()["items"]
            if len(found) == count:
                return found
            await asyncio.sleep(0.02)


@both
@pytest.mark.shows("mcp", "approval", "unicode")
async def test_a_user_approves_in_a_form_that_shows_the_arguments(served: Served, mode: str) -> None:
    heard = Heard()
    answer = lambda _: accept(approved=True, comment="go")  # noqa: E731
    async with mcp_client(served.url, ADMIN_KEY, mode, heard=heard, answer=answer) as client:
        result = await order(client, ["say", "before"], ORDER, ["say", "after"])
    assert texts_of(result) == ["before", ORDERED, "after"]
    (form,) = heard.asked
    assert '{"thing":"灯 🙂"}' in form.message
    schema = form.requested_schema
    assert schema["properties"]["approved"]["type"] == "boolean"
    assert schema["required"] == ["approved"]


@both
@pytest.mark.parametrize(
    "given", [accept(approved=False), ElicitResult(action="decline")], ids=["no", "decline"]
)
async def test_a_user_denies(served: Served, mode: str, given: ElicitResult) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode, answer=lambda _: given) as client:
        result = await order(client)
    assert texts_of(result)[0].startswith("player.order failed")
    (run,) = (await served.client.get("/v1/runs")).json()["items"]
    (pause,) = (await served.client.get(f"/v1/pauses?run_id={run['run_id']}")).json()["items"]
    assert pause["calls"][0]["decision"] == "denied"


@both
async def test_several_calls_are_asked_at_once(served: Served, mode: str) -> None:
    heard = Heard()
    calls = [["tool", "player.order", {"thing": name}, name] for name in ("lamp", "chair", "table")]

    def answer(params: Any) -> ElicitResult:
        return accept(approved="chair" not in params.message)

    async with mcp_client(served.url, ADMIN_KEY, mode, heard=heard, answer=answer) as client:
        result = await order(client, ["together", calls])
    assert len(heard.asked) == 3
    said = sorted(texts_of(result))
    assert sum("failed" in text for text in said) == 1
    assert 'player.order: "ordered 1 lamp"' in said


@both
@pytest.mark.shows("mcp", "question")
async def test_a_question_is_a_form_with_its_options(served: Served, mode: str) -> None:
    heard = Heard()
    async with mcp_client(
        served.url, ADMIN_KEY, mode, heard=heard, answer=lambda _: accept(size="xl")
    ) as client:
        result = await order(client, ["ask", "Which size?"])
    assert texts_of(result) == ['answered: {"size": "xl"}']
    (form,) = heard.asked
    assert form.message == "Which size?\nIt is cold."
    assert form.requested_schema["properties"]["size"]["enum"] == ["s", "xl"]


@both
async def test_a_question_that_is_refused_ends_the_run(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode, answer=lambda _: DECLINE) as client:
        result = await order(client, ["ask", "Which size?"])
    assert result.is_error
    assert result.structured_content["status"] == "cancelled"


@both
async def test_without_a_user_a_text_says_where_to_decide(served: Served, mode: str) -> None:
    async with mcp_client(served.url, ADMIN_KEY, mode) as client:
        result = await order(client)
        assert not result.is_error
        assert result.structured_content["status"] == "waiting"
        run_id = result.structured_content["run_id"]
        assert f"hostler pauses list --run {run_id}" in result.content[0].text
    (pause,) = await open_pauses(served)
    assert pause["run_id"] == run_id


async def test_a_form_that_is_closed_leaves_the_run_waiting(served: Served) -> None:
    """In the stateless revision the call ends with where to decide it; nothing was decided."""
    close = ElicitResult(action="cancel")
    async with mcp_client(served.url, ADMIN_KEY, "2026-07-28", answer=lambda _: close) as client:
        result = await order(client)
        assert result.structured_content["status"] == "waiting"
    (pause,) = await open_pauses(served)
    assert pause["calls"][0]["decision"] == "undecided"


async def test_a_repeated_call_goes_on_with_its_run_and_no_other(served: Served) -> None:
    """`requestState` is good for its tool and its caller; a state that was altered is refused."""
    async with mcp_client(served.url, ADMIN_KEY, "2026-07-28", answer=lambda _: accept()) as client:
        given = {"message": script(ORDER)}
        first = await client.session.call_tool("player", given, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        assert first.input_requests is not None
        assert first.request_state is not None
        again = await client.session.call_tool(
            "player", given, request_state=first.request_state, allow_input_required=True
        )
        assert again == first  # nothing was decided
        for state in (first.request_state[:-2] + "xx", "x", ""):
            with pytest.raises(MCPError, match="requestState: expected"):
                await client.session.call_tool(
                    "player", given, request_state=state, allow_input_required=True
                )
        (key,) = first.input_requests
        wrong: Any = {key: accept(approved="perhaps")}
        with pytest.raises(MCPError, match=r'expected \{"approved": true\}'):
            await client.session.call_tool(
                "player", given, input_responses=wrong, request_state=first.request_state
            )
        right: Any = {key: accept(approved=True)}
        for _ in range(2):  # a repeated decision changes nothing
            done = await client.session.call_tool(
                "player", given, input_responses=right, request_state=first.request_state
            )
            assert texts_of(done) == [ORDERED]
        late: Any = {key: accept(approved=False)}
        with pytest.raises(MCPError, match="approved"):
            await client.session.call_tool(
                "player", given, input_responses=late, request_state=first.request_state
            )
    other = await served.key("default", "admin", subject="somebody else")
    async with mcp_client(served.url, other, "2026-07-28") as client:
        with pytest.raises(MCPError, match="requestState: expected"):
            await client.session.call_tool("player", given, request_state=first.request_state)
    assert len((await served.client.get("/v1/runs")).json()["items"]) == 1


async def test_what_others_decide_ends_the_wait_of_a_session(served: Served) -> None:
    """The form is still open at its user, who answers late: that is refused, and the run has gone on."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def answer(params: Any) -> ElicitResult:
        asked.set()
        await go.wait()
        return accept(approved=False)

    async with mcp_client(served.url, ADMIN_KEY, "legacy", answer=answer) as client:
        call = asyncio.create_task(order(client))
        await asked.wait()
        (pause,) = await open_pauses(served)
        (waiting,) = pause["calls"]
        action = {"call_id": waiting["call_id"], "type": "approve", "args_hash": waiting["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        done = await served.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        assert done.status_code == 202, done.text
        assert texts_of(await call) == [ORDERED]
        go.set()


async def test_answers_to_forms_that_nobody_asked_are_refused(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin(elicits=True)
        for id_ in ("x", "call_r_c.0123456789abcdef.4", "call_r_c.4", 7):
            reply = {"jsonrpc": "2.0", "id": id_, "result": {"action": "accept", "content": {}}}
            answer = await client.post(reply)
            assert answer.status_code == 404, answer.text
            assert answer.json()["error"]["code"] == -32602
        body = {"jsonrpc": "2.0", "id": "x", "error": {"code": -1, "message": "no user"}}
        assert (await client.post(body)).status_code == 202


async def test_who_may_not_decide_is_told_so(served: Served) -> None:
    key = await served.key("default", "events:write", "runs:read", "pauses:write", subject="asker")
    policy: dict[str, Any] = {"allowed_tool_names": ["player.*"]}
    policy |= {"tool_approval": {"player.order": {"approval": "required", "subjects": ["role:boss"]}}}
    body = {"name": "strict", "runner": "plugin:test/player/default", "resource_policy": policy}
    assert (await served.client.put("/v1/agents/strict", json=body)).status_code in (200, 201)
    async with mcp_client(served.url, key, "2026-07-28", answer=lambda _: accept(approved=True)) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("strict", {"message": script(ORDER)})
        assert raised.value.error.data["details"]["reason"] == "not_approver"
    await open_pauses(served)


async def test_a_form_answered_over_a_wire_without_streams(served: Served) -> None:
    """A stateless client that takes no streams gets the form as JSON, and goes on with it."""
    async with wire(served.url, ADMIN_KEY) as client:
        client.session = {"accept": "application/json"}
        given = {"name": "player", "arguments": {"message": script(ORDER)}}
        first = result_in(await client.ask_stateless("tools/call", given, elicitation={}))
        assert first["resultType"] == "input_required"
        (key,) = first["inputRequests"]
        response = {key: {"action": "accept", "content": {"approved": True}}}
        repeated = {**given, "inputResponses": response, "requestState": first["requestState"]}
        second = await client.ask_stateless("tools/call", repeated, elicitation={})
        assert texts_of(result_in(second)) == [ORDERED]
        assert messages_in(second)[0]["result"]["resultType"] == "complete"


async def test_an_answer_that_decides_nothing_is_refused_and_the_call_sent_again_asks_again(
    served: Served,
) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin(elicits=True)
        params = {"name": "player", "arguments": {"message": script(ORDER)}}
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
        asked = []
        for given in ({"approved": "yes"}, {}, {"approved": True}):
            async with client.http.stream("POST", "/mcp", json=call, headers=client.headers()) as stream:
                lines = stream.aiter_lines()
                async for line in lines:
                    if "elicitation/create" in line:
                        break
                asked.append(json.loads(line.removeprefix("data: ")))
                reply = {"action": "accept", "content": given}
                answer = await client.post({"jsonrpc": "2.0", "id": asked[-1]["id"], "result": reply})
                if given == {"approved": True}:
                    assert answer.status_code == 202, answer.text
                    rest = [line async for line in lines if line.startswith("data: {")]
                    assert texts_of(json.loads(rest[-1].removeprefix("data: "))["result"]) == [ORDERED]
                else:
                    assert answer.status_code == 422, answer.text
                    assert '{"approved": true}' in answer.json()["error"]["message"]
        assert asked[0] == asked[1] == asked[2]
        assert len((await served.client.get("/v1/runs")).json()["items"]) == 1
