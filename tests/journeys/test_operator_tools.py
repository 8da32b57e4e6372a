"""Tools that operators configure, in whole hosts: approved, asked again, in doubt, like any other tool."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.pause_views import PauseView
from hostler.domain.tool_entries import ExecEntry, ToolEntry
from hostler.host.config import ConfigFile
from support.mcp_bench import over_stdio
from support.stepping import WORKSPACE, Stage, stage, within
from support.web import Asked, Web, page

pytestmark = pytest.mark.timeout(200)
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))
LOOK_SECONDS = 0.02
KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}


def operation(name: str, *parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    content = {"application/json": {"schema": schema}}
    return {
        "operationId": name,
        "parameters": list(parameters),
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": "done"}},
    }


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "till", "version": "1"},
    "paths": {"/pay": {"post": operation("pay", KEY)}, "/note": {"post": operation("note")}},
}


def calling(name: str, **parameters: Any) -> list[Any]:
    return ["call", "tool.call", {"tool_name": name, "parameters": parameters}]


@contextlib.asynccontextmanager
async def host(data: Path, web: Web, *more: ToolEntry, approval: str = "never") -> AsyncIterator[Stage]:
    """A host with a till over HTTP, and an agent that may use all there is."""
    document = data / "till.json"
    document.write_text(json.dumps(DOCUMENT))
    rules: Any = {"*": approval}
    till = OpenApiEntry(
        name="till", document=str(document), base_url=web.url(), network=["127.0.0.1"], approval=rules
    )
    async with within(60), stage(data, agent=False, hold_seconds=0.05) as made:
        await made.host.apply(ConfigFile(tools=[ToolEntry(openapi=till), *more]), actor="test")
        while any(server.state != "ready" for server in made.host.mcp.servers(WORKSPACE)):
            await asyncio.sleep(LOOK_SECONDS)
        await made.agent(runner="resumable", resource_policy={"allowed_tool_names": ["*"]})
        yield made


async def waiting(made: Stage, run_id: str, status: str, calls: int = 1) -> PauseView:
    while True:
        items = (await made.host.pauses.page(ADMIN, run_id=run_id)).items
        if items and items[0].status == status and len(items[0].calls) >= calls:
            return items[0]
        await asyncio.sleep(LOOK_SECONDS)


def lines(folder: Path) -> list[str]:
    """What the MCP server was asked to do."""
    found = (folder / "journal").read_text().splitlines() if (folder / "journal").exists() else []
    return [line for line in found if line.startswith("call")]


async def test_what_a_person_approves_is_done_once_with_what_was_approved(tmp_path: Path) -> None:
    server = tmp_path / "server"
    tools = [
        ToolEntry(mcp=over_stdio(server, approval={"say": "required"})),
        ToolEntry(exec=ExecEntry(approval="required")),
    ]
    wishes = (
        calling("s.say", text="hi"),
        calling("till.pay", body={"n": 1}),
        calling("exec", command="echo ran; date > when"),
    )
    steps: list[list[Any]] = [["together", *([wish] for wish in wishes)], ["tell"]]
    async with Web() as web, host(tmp_path, web, *tools, approval="required") as made:
        web.pages["/pay"] = page('{"paid": 1}', kind="application/json")
        run_id = await made.start(steps, conversation_id="c")
        pause = await waiting(made, run_id, "open", calls=3)
        asked = {call.tool: call.args for call in pause.calls}
        assert asked == {
            "s.say": {"text": "hi"},
            "till.pay": {"body": {"n": 1}},
            "exec": {"command": "echo ran; date > when"},
        }
        assert (lines(server), web.asked) == ([], [])
        assert await made.host.folders.found() == []
        actions = [Action(call_id=c.call_id, type="approve", args_hash=c.args_hash) for c in pause.calls]
        request = ActRequest(revision=pause.revision, actions=actions)
        await made.host.pauses.act(ADMIN, pause.id, request)
        results = [one["result"] for one in (await made.ended(run_id)).told]
        said = [one["content"][0]["text"] for one in results if one.get("source") == "mcp:s"]
        paid = [one["body"] for one in results if one.get("source") == "openapi:till"]
        ran = [(one["exit_code"], one["stdout"]) for one in results if "exit_code" in one]
        assert (said, paid, ran) == (["said hi"], [{"paid": 1}], [(0, "ran\n")])
        entries = await made.entries(run_id)
        keys = {
            entry["data"]["tool_name"]: entry["data"]["effect_key"]
            for entry in entries
            if entry["kind"] == "intent"
        }
        assert lines(server) == [f'call say {{"text": "hi"}} {keys["s.say"]}']
        [asked_once] = web.asked
        assert asked_once.headers["idempotency-key"] == keys["till.pay"]


async def test_a_lost_answer_of_a_service_is_a_matter_of_what_its_document_says(tmp_path: Path) -> None:
    lost = 1

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        """The first of each kind gets none."""
        if len([other for other in web.asked if other.path == asked.path]) > lost:
            writer.write(page(json.dumps({"done": asked.path}), kind="application/json"))

    web = Web()
    async with web, host(tmp_path, web) as made:
        web.pages["*"] = answer
        ended = await made.run([calling("till.pay", body={"n": 1}), ["tell"]])
        assert ended.told[0]["result"]["body"] == {"done": "/pay"}
        first, again = (asked.headers["idempotency-key"] for asked in web.asked)
        assert first == again
        run_id = await made.start([calling("till.note", body={"n": 1}), ["tell"]])
        pause = await waiting(made, run_id, "needs_review")
        (call,) = pause.calls
        assert (call.kind, call.tool, len(web.asked)) == ("in_doubt", "till.note", 3)
        await made.host.pauses.resolve(ADMIN, pause.id, call.call_id, "not_happened")
        ended = await made.ended(run_id)
        assert ended.told[0]["result"]["body"] == {"done": "/note"}
        assert len(web.asked) == 4
