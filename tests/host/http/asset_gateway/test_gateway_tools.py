"""The asset gateway and the official MCP client: what a run's token opens, by the run's own access."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.calls import KnowledgeItem, RetrieveReply
from hostler_protocol.grants import KnowledgeBaseResource
from support.http_host import WORKSPACE
from support.lending import GENERATIONS, Lending, client_of, lending

pytestmark = pytest.mark.gate("run-tokens")


async def within(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with asyncio.timeout(100), lending(tmp_path, **settings) as made:
        await scenario(made)


async def told(client: Any, tool: str, /, **arguments: Any) -> Any:
    """What a tool that went well gave."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content or result.content[0].text


async def refused(client: Any, tool: str, /, **arguments: Any) -> str:
    """What one that did not go well says."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    text: str = result.content[0].text
    return text


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_run_token_opens_what_the_run_may_do_and_the_journal_has_it_all(
    tmp_path: Path, mode: str
) -> None:
    async def scenario(made: Lending) -> None:
        first = await made.open()
        first.end()
        await made.over(first.run_id)
        lent = await made.open()
        async with client_of(lent, mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names[:6] == [
                "history_page",
                "history_search",
                "call_tool",
                "state_get",
                "state_set",
                "artifact_read",
            ]
            assert {"toolbox.echo", "toolbox.hold", "toolbox.keep"} < set(names[6:])
            page = await told(client, "history_page", limit=5)
            assert [item["role"] for item in page["items"]] == ["assistant", "user"]
            assert (await told(client, "history_search", query="done"))["items"]
            assert (await told(client, "state_get", scope="conversation", key="k"))["version"] == 0
            assert (await told(client, "state_set", scope="conversation", key="k", value=[1])) == {
                "version": 1
            }
            assert (await told(client, "state_get", scope="conversation", key="k"))["value"] == [1]
            read = await told(client, "artifact_read", artifact_id=await made.artifact(lent.run_id))
            assert base64.b64decode(read["content_base64"]) == b"kept by the run"
            assert await told(client, "toolbox.echo", value={"a": 1}) == {"a": 1}
            assert await told(client, "toolbox.echo", value="text") == "text"
            assert await told(client, "call_tool", tool_name="toolbox.echo", parameters={"value": {}}) == "{}"
            whose = await told(client, "toolbox.whose")
            assert whose["run_id"] == lent.run_id
            assert "not_found" in await refused(client, "toolbox.unknown")
            assert "not_found" in await refused(client, "retrieve_knowledge", kb_id="k", query_text="q")
            assert "at /size" in await refused(client, "toolbox.large", size="x")
            assert "KeyError" in await refused(client, "toolbox.fail", text="no")
            assert "state scope 'actor'" in await refused(client, "state_get", scope="actor", key="k")
        calls = await made.calls(lent.run_id)
        assert ("call", "history.page", None) in calls
        assert ("call", "state.set", None) in calls
        assert calls.count(("call", "tool.call", "toolbox.echo")) == 3
        assert calls.count(("intent", "tool.call", "toolbox.fail")) == 1
        assert ("refusal", "tool.call", None) in calls or ("refusal", "tool.call", "toolbox.unknown") in calls
        lent.end()
        assert (await made.over(lent.run_id))["status"] == "completed"
        assert found_in(tmp_path / "data", lent.token.encode()) == []

    await within(tmp_path, scenario)


class Shelf:
    """Two knowledge bases; who asks for what is kept."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        return {
            name: KnowledgeBaseResource(kb_id=name, kb_name=name, operations=["list", "retrieve"])
            for name in ("handbook", "salaries")
        }

    async def retrieve(
        self, workspace_id: str, kb_id: str, query_text: str, *, top_k: int, filters: Any, deadline: Any
    ) -> RetrieveReply:
        self.asked.append((workspace_id, kb_id, query_text, top_k, filters))
        items = [KnowledgeItem(content=f"{query_text} {n}", score=1.0 / (n + 1)) for n in range(top_k)]
        return RetrieveReply(items=items)


async def test_knowledge_is_what_the_run_may_look_into(tmp_path: Path) -> None:
    shelf = Shelf()

    async def scenario(made: Lending) -> None:
        await made.agent("reader", allowed_kb_ids=["handbook"])
        lent = await made.open("reader")
        async with client_of(lent) as client:
            (tool,) = [one for one in (await client.list_tools()).tools if one.name == "retrieve_knowledge"]
            assert tool.input_schema["properties"]["kb_id"]["enum"] == ["handbook"]
            given = {"kb_id": "handbook", "query_text": "tea", "top_k": 2, "filters": {"lang": "en"}}
            items = (await told(client, "retrieve_knowledge", **given))["items"]
            assert [(item["content"], item["score"]) for item in items] == [("tea 0", 1.0), ("tea 1", 0.5)]
            other = {"kb_id": "salaries", "query_text": "ann"}
            assert "not_found" in await refused(client, "retrieve_knowledge", **other)
            assert "top_k" in await refused(client, "retrieve_knowledge", **given | {"top_k": 0})
        lent.end()
        await made.over(lent.run_id)
        assert shelf.asked == [(WORKSPACE, "handbook", "tea", 2, {"lang": "en"})]
        calls = [entry[:2] for entry in await made.calls(lent.run_id)]
        assert calls.count(("call", "knowledge.retrieve")) == 1
        assert calls.count(("refusal", "knowledge.retrieve")) >= 1

    await within(tmp_path, scenario, knowledge=shelf)


def found_in(folder: Path, secret: bytes) -> list[str]:
    """The files of a folder that hold it."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]


async def test_a_runner_that_does_not_ask_for_a_token_has_none(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        await made.agent("plain", assets=False)
        lent = await made.open("plain")
        assert lent.assets is None
        lent.end()

    await within(tmp_path, scenario)


async def test_two_clients_at_once_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        async with client_of(lent) as one, client_of(lent) as two, client_of(lent, "2026-07-28") as three:
            names = {"a": one, "b": two, "c": three}
            waiting = {n: asyncio.create_task(told(c, "toolbox.hold", name=n)) for n, c in names.items()}
            for name in names:
                await told(two, "toolbox.held", name=name)
            for name in reversed(names):
                await lent.own_call("toolbox.release", name=name)  # the runner goes on meanwhile
            assert {name: await task for name, task in waiting.items()} == {name: name for name in names}
        lent.end()
        await made.over(lent.run_id)

    await within(tmp_path, scenario)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_client_that_cancels_waits_no_more_and_the_tool_is_carried_to_its_end(
    tmp_path: Path, mode: str
) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        async with client_of(lent, mode) as client:
            waiting = asyncio.create_task(client.call_tool("toolbox.hold", {"name": "h"}))
            await told(client, "toolbox.held", name="h")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert ("intent", "tool.call", "toolbox.hold") in await made.calls(lent.run_id)
            await told(client, "toolbox.release", name="h")
            while ("call", "tool.call", "toolbox.hold") not in await made.calls(lent.run_id):
                await asyncio.sleep(0.01)
        lent.end()
        await made.over(lent.run_id)

    await within(tmp_path, scenario)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_run_that_ends_ends_the_calls_that_are_under_way(tmp_path: Path, mode: str) -> None:
    async def scenario(made: Lending) -> None:
        lent = await made.open()
        async with client_of(lent, mode) as client:
            waiting = asyncio.create_task(refused(client, "toolbox.hold", name="h"))
            await told(client, "toolbox.held", name="h")
            await made.served.client.post(f"/v1/runs/{lent.run_id}/cancel", json={"grace": 0})
            assert "cancelled: " in await waiting
        assert made.served.server.app.assets.sessions.count <= 1

    await within(tmp_path, scenario)


async def test_a_call_that_needs_a_person_is_held_and_goes_on_when_it_was_approved(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        await made.agent("careful", tool_approval={"toolbox.keep": "required"})
        lent = await made.open("careful")
        async with client_of(lent) as client:
            waiting = asyncio.create_task(told(client, "toolbox.keep", value="v"))
            http = made.served.client
            while not (open_now := (await http.get("/v1/pauses", params={"status": "open"})).json()["items"]):
                await asyncio.sleep(0.01)
            pause = (await http.get(f"/v1/pauses/{open_now[0]['id']}")).json()
            (call,) = pause["calls"]
            yes = {"call_id": call["call_id"], "type": "approve", "args_hash": call["args_hash"]}
            body = {"revision": pause["revision"], "actions": [yes]}
            assert (await http.post(f"/v1/pauses/{pause['id']}/actions", json=body)).status_code == 202
            assert await waiting == "v"
        lent.end()
        assert (await made.over(lent.run_id))["status"] == "completed"

    await within(tmp_path, scenario)


async def test_where_the_run_could_be_parked_meanwhile_nobody_is_asked_for_a_service(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        await made.agent("durable", runner="resumable", tool_approval={"toolbox.keep": "required"})
        lent = await made.open("durable")
        async with client_of(lent) as client:
            assert "its runner can make this call, a service can not" in await refused(
                client, "toolbox.keep", value="v"
            )
            assert "its runner can make this call, a service can not" in await refused(
                client, "toolbox.ask_client", what="x"
            )
            assert await told(client, "toolbox.echo", value="v") == "v"
        assert (await made.served.client.get("/v1/pauses")).json()["items"] == []
        lent.end()
        assert (await made.over(lent.run_id))["status"] == "completed"

    await within(tmp_path, scenario)


async def test_what_a_service_did_is_no_part_of_what_the_runner_has_to_repeat(tmp_path: Path) -> None:
    async def scenario(made: Lending) -> None:
        await made.agent("durable", runner="resumable")
        lent = await made.open("durable")
        assert await lent.own_call("toolbox.echo", value=1) == 1
        async with client_of(lent) as client:
            assert await told(client, "toolbox.keep", value="by the service") == "by the service"
            await told(client, "state_set", scope="conversation", key="k", value=1)
        (status,) = [one for one in made.served.host.supervisor.status() if one.key == "test/lender"]
        connection = await made.served.host.supervisor.connection("test/lender")
        assert status.pid is not None
        connection.abort("killed by the test")
        again = await made.next()
        assert (again.run_id, again.attempt) == (lent.run_id, 2)
        assert again.token != lent.token
        assert await again.own_call("toolbox.echo", value=1) == 1
        async with client_of(again) as client:
            assert await told(client, "toolbox.keep", value="by the service") == "by the service"
            assert (await told(client, "state_get", scope="conversation", key="k"))["value"] == 1
        again.end()
        ended = await made.over(lent.run_id)
        assert (ended["status"], ended["attempt"]) == ("completed", 2)
        calls = await made.calls(lent.run_id)
        assert calls.count(("intent", "tool.call", "toolbox.keep")) == 2
        assert calls.count(("call", "tool.call", "toolbox.echo")) == 1

    await within(tmp_path, scenario)
