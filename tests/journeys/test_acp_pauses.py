"""Approvals and questions of a run in `hostler acp`, with the official Python client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from acp.schema import (
    ClientCapabilities,
)

from support.editor_hosts import POLICY, a_host, agent, at
from support.editors import said, steps
from support.shop import BOOK, asking, calling

pytestmark = pytest.mark.timeout(400)
FORM = [
    {"name": "size", "type": "select", "options": [1, 2], "required": True, "label": "Size"},
    {"name": "extras", "type": "multiselect", "options": ["tea", "cake"]},
    {"name": "note", "type": "textarea"},
    {"name": "sure", "type": "boolean", "default": False},
    {"name": "seats", "type": "number"},
]


@pytest.mark.gate("editor-consent")
@pytest.mark.shows("acp", "approval")
async def test_approvals_are_permission_requests(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session = await editor.new(tmp_path)
        person = editor.person
        person.choose("allow")
        await editor.say(session, steps(BOOK, ["tell"]))
        (asked,) = person.asked
        assert asked["call"]["rawInput"] == {"kind": "double"}
        assert '"kind": "double"' in asked["call"]["content"][0]["content"]["text"]
        assert asked["options"] == {
            "allow": "allow_once",
            "allow_again": "allow_always",
            "reject": "reject_once",
        }
        assert "B1" in person.text()
        (call,) = person.tool_calls().values()
        assert call["status"] == "completed"
        person.choose("reject")
        await editor.say(session, steps(BOOK, ["tell"]))
        assert "denied" in person.text()
        assert [one["status"] for one in person.tool_calls().values()] == ["completed", "failed"]
        person.choose("allow_again")
        await editor.say(session, steps(BOOK, BOOK, ["tell"]))
        assert len(person.asked) == 3
        async with host.client() as client:
            pauses = (await client.get("/v1/pauses", params={"conversation_id": session})).json()["items"]
        calls = [call for pause in reversed(pauses) for call in pause["calls"]]
        assert [call["decision"] for call in calls] == ["approved", "denied", "approved"]
        async with at(host, tmp_path) as other:  # what was decided is not asked again
            await other.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            assert other.person.asked == []
            assert [c["status"] for c in other.person.tool_calls().values()][:2] == ["completed", "failed"]


async def test_a_decision_elsewhere_withdraws_the_request(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor, host.client() as client:
        session = await editor.new(tmp_path)
        prompt = editor.saying(session, steps(BOOK, ["tell"]))
        await editor.person.until(lambda: editor.person.asked)
        (pause,) = (await client.get("/v1/pauses", params={"status": "open"})).json()["items"]
        (call,) = pause["calls"]
        action = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
        body = {"revision": pause["revision"], "actions": [action]}
        assert (await client.post(f"/v1/pauses/{pause['id']}/actions", json=body)).status_code == 202
        assert (await prompt).stop_reason == "end_turn"
        assert "B1" in editor.person.text()
        editor.person.choose("reject")  # too late, and of no effect
        await editor.say(session, steps(said("on")))
        kept = (await client.get(f"/v1/pauses/{pause['id']}")).json()
        assert kept["calls"][0]["decision"] == "approved"


@pytest.mark.gate("editor-consent")
async def test_a_key_that_may_not_decide_says_who_does(tmp_path: Path) -> None:
    rights = ["events:write", "events:read", "runs:read", "runs:write", "conversations:read", "agents:read"]
    async with a_host(tmp_path) as host, host.client() as client:
        made = (await client.post("/v1/keys", json={"name": "editor", "rights": rights})).json()
        async with at(host, tmp_path, key=made["key"]) as editor:
            session = await editor.new(tmp_path)
            prompt = editor.saying(session, steps(BOOK, ["tell"]))
            await editor.person.until(lambda: "may not decide it" in json.dumps(editor.person.tool_calls()))
            assert not editor.person.asked
            await editor.connection.cancel(session_id=session)
            assert (await prompt).stop_reason == "cancelled"


@pytest.mark.shows("acp", "question")
async def test_questions_are_forms(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session, person = await editor.new(tmp_path), editor.person
        given = {"size": "2", "extras": ["cake"], "note": "嗨", "sure": True, "seats": 4}
        person.fill_in(given)
        await editor.say(session, steps(asking(kind="form", title="Which?", fields=FORM), ["tell"]))
        (asked,) = person.asked
        assert asked["message"] == "Which?"
        properties = asked["mode"]["requestedSchema"]["properties"]
        assert {name: one["type"] for name, one in properties.items()} == {
            "size": "string", "extras": "array", "note": "string", "sure": "boolean", "seats": "number",
        }  # fmt: skip
        assert asked["mode"]["requestedSchema"]["required"] == ["size"]
        (told,) = json.loads(person.text())
        assert told["values"] == {**given, "size": 2}
        person.updates.clear()
        person.fill_in({"action": "no"})
        question = asking(kind="choice", title="Go on?", actions=[{"name": "yes"}, {"name": "no"}])
        await editor.say(session, steps(question, ["tell"]))
        assert json.loads(person.text())[0]["result"] == "no"


async def test_without_forms_buttons_are_options_and_the_rest_is_said(tmp_path: Path) -> None:
    bare = ClientCapabilities()
    async with a_host(tmp_path) as host, at(host, tmp_path, capabilities=bare) as editor:
        session, person = await editor.new(tmp_path), editor.person
        person.choose("no")
        question = asking(
            kind="choice", title="Go on?", actions=[{"name": "yes"}, {"name": "no", "style": "danger"}]
        )
        await editor.say(session, steps(question, ["tell"]))
        assert person.asked[0]["options"] == {"yes": "allow_once", "no": "reject_once"}
        assert json.loads(person.text())[0]["result"] == "no"
        prompt = editor.saying(
            session, steps(asking(kind="form", title="Which size?", fields=FORM), ["tell"])
        )
        await person.until(lambda: "hostler pauses answer" in person.text())
        assert "Which size?" in person.text()
        shown = await editor.say(session, "/pauses")
        assert shown.stop_reason == "end_turn"
        assert "question Which size?" in person.text()
        await editor.connection.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"


@pytest.mark.shows("acp", "budget", "in-doubt")
async def test_more_budget_and_a_call_in_doubt_are_permission_requests(tmp_path: Path) -> None:
    budget = {"max_tool_calls_per_run": 1, "on_exceeded": "ask"}
    policy = {**POLICY, "allowed_tool_names": ["shop.prices", "toolbox.die"]}
    thrifty = agent("thrifty", resource_policy={**policy, "budget": budget})
    helper = agent(resource_policy=policy)
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    async with a_host(tmp_path / "first", helper) as host, at(host, tmp_path) as editor:
        session, person = await editor.new(tmp_path), editor.person
        person.choose("happened")
        await editor.say(session, steps(calling("toolbox.die"), ["tell"]))
        (doubt,) = person.asked
        assert "toolbox.die" in json.dumps(doubt["call"])
        assert set(doubt["options"]) == {"happened", "not_happened"}
        assert json.loads(person.text())[0]["result"] is None
    async with a_host(tmp_path / "second", thrifty) as host, at(host, tmp_path, "thrifty") as editor:
        session, person = await editor.new(tmp_path), editor.person
        person.choose("allow")
        await editor.say(session, steps(*[calling("shop.prices")] * 2, ["tell"]))
        assert ["result" in one for one in json.loads(person.text())] == [True, True], person.text()
        (more,) = person.asked
        assert "top_up" in json.dumps(more["call"])
