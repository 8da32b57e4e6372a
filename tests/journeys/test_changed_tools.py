"""A tool changes while a call of it waits: what people approved is what runs, or they are asked again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from hostler.domain.events import Caller
from hostler.domain.pause_actions import ActRequest
from hostler.host.config import ConfigFile
from hostler.host.data_directory import own_database
from hostler.http.dialects.answers import call_id_of
from hostler.http.dialects.fold import Answer
from hostler.http.dialects.requests import request_id
from hostler.http.openai.responses_items import approval_id
from hostler.pauses.service import PauseService
from hostler.storage.sql.connect import open_database
from hostler_protocol.results import InteractionRequested
from hostler_protocol.runs import TERMINAL_STATUSES
from support.dialects.players import PLAYER, RUNNER, script
from support.http_host import WORKSPACE, Served, serving
from support.http_runs import ended
from support.server_process import LOOK_SECONDS, HostProcess
from support.server_process import serving as serving_process
from support.trust import trusted

pytestmark = [pytest.mark.gate("approved-arguments"), pytest.mark.timeout(110)]

TOOLS = '''
from pathlib import Path

from hostler_sdk import tool


@tool
def send(path: str) -> str:
    """Sends a card."""
    with Path(path).open("a") as file:
        file.write("card\\n")
    return "sent"
'''
MANIFEST = "plugin: {author: acme, name: post, version: 1.0.0}\ntools: ['tools:send']\n"
CHANGES = {
    "description": ("tools.py", "Sends a card.", "Sends a card, and a copy to everybody."),
    "schema": ("tools.py", "path: str)", "path: str, copies: int = 0)"),
    "effect": ("tools.py", "@tool\n", '@tool(effect="idempotent")\n'),
    "version": ("hostler.yaml", "1.0.0", "2.0.0"),
}
POLICY = {"allowed_tool_names": ["post.*"], "tool_approval": {"post.*": "required"}}
CONVERSATION = "c1"
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))
AGENT: dict[str, Any] = {
    "name": "player",
    "runner": RUNNER,
    "resource_policy": POLICY,
    "config": {"tools": ["post.*"]},
}


def post(folder: Path) -> Path:
    """A plugin with one tool, which adds a line to a file."""
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    (folder / "hostler.yaml").write_text(MANIFEST)
    return folder


def change(folder: Path, what: str) -> None:
    """Change what the plugin says of its tool, and what the tool does."""
    file, before, after = CHANGES[what]
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after))
    code = folder / "tools.py"
    code.write_text(code.read_text().replace('"card', '"another card'))


class Waiting(NamedTuple):
    """A call that waits in a run."""

    run_id: str
    pause: dict[str, Any]

    @property
    def call(self) -> dict[str, Any]:
        (call,) = self.pause["calls"]
        found: dict[str, Any] = call
        return found

    def approval(self, **more: Any) -> dict[str, Any]:
        """The body of `POST /v1/pauses/{id}/actions`."""
        own = {"call_id": self.call["call_id"], "type": "approve", "args_hash": self.call["args_hash"]}
        return {"revision": self.pause["revision"], "actions": [own | more]}

    @property
    def request_id(self) -> str:
        """The id that dialects have for it."""
        shown = {name: self.call[name] for name in ("call_id", "args_hash", "title")}
        return request_id(self.run_id, InteractionRequested(kind="approval", **shown))


async def waits(client: httpx.AsyncClient, run_id: str, *, revision: int = 1) -> Waiting:
    """The call that a run waits for, once it is parked."""
    while True:
        items = (await client.get("/v1/pauses", params={"run_id": run_id})).json()["items"]
        run = (await client.get(f"/v1/runs/{run_id}")).json()
        assert run["status"] not in TERMINAL_STATUSES, run
        shown = [(one["status"], one["revision"]) for one in items[:1]]
        if run["status"] == "paused" and shown == [("open", revision)]:
            return Waiting(run_id, (await client.get(f"/v1/pauses/{items[0]['id']}")).json())
        await asyncio.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def host_of(tmp_path: Path, database_url: str) -> AsyncIterator[Served]:
    """A host with the post and an agent that plays, each life on the same data."""
    url = database_url if database_url.startswith("postgresql:") else None
    async with serving(tmp_path / "data", agent=False, database=url, hold_seconds=0.0) as served:
        await served.host.apply(
            ConfigFile(plugins=[trusted(PLAYER), trusted(tmp_path / "post")]), actor="test"
        )
        answer = await served.client.put("/v1/agents/player", json=AGENT)
        assert answer.status_code in (200, 201), answer.text
        yield served


async def approved_elsewhere(tmp_path: Path, database_url: str, waiting: Waiting) -> None:
    """Approve on the same database while there is no host that goes on with the run."""
    is_shared = database_url.startswith("postgresql:")
    database = open_database(database_url if is_shared else str(own_database(tmp_path / "data")))
    try:
        request = msgspec.convert(waiting.approval(), ActRequest)
        await PauseService(database).act(ADMIN, waiting.pause["id"], request)
    finally:
        await database.close()


async def by_pause(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    return await client.post(f"/v1/pauses/{old.pause['id']}/actions", json=old.approval())


async def by_pause_at_the_newest_revision(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    body = old.approval() | {"revision": 2}
    return await client.post(f"/v1/pauses/{old.pause['id']}/actions", json=body)


async def by_conversation(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    shown = {"call_id": old.call["call_id"], "decision": "approved", "args_hash": old.call["args_hash"]}
    body = {"conversation_id": CONVERSATION, "tool_actions": [shown]}
    return await client.post("/v1/pauses/actions", json=body)


async def blindly(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    blind = {"call_id": old.call["call_id"], "decision": "approved"}
    body = {"conversation_id": CONVERSATION, "tool_actions": [blind]}
    return await client.post("/v1/pauses/actions", json=body)


async def by_langgraph(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    return await _resumed(client, {old.request_id: {"approved": True}})


async def by_langgraph_without_id(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    return await _resumed(client, {"decisions": [{"type": "approve"}]})


async def by_langgraph_of_the_call(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    state = (await client.get(f"/langgraph/threads/{CONVERSATION}/state")).json()
    (call,) = [call for one in state["values"]["messages"] for call in one.get("tool_calls", [])]
    return await _resumed(client, {call["id"]: {"decisions": [{"type": "approve"}]}})


async def _resumed(client: httpx.AsyncClient, resume: dict[str, Any]) -> httpx.Response:
    body = {"assistant_id": "player", "command": {"resume": resume}}
    return await client.post(f"/langgraph/threads/{CONVERSATION}/runs/wait", json=body)


async def by_responses(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    name = approval_id(old.run_id, old.call["call_id"], old.call["args_hash"])
    item = {"type": "mcp_approval_response", "approval_request_id": name, "approve": True}
    return await client.post("/v1/responses", json={"model": "player", "input": [item]})


async def by_ai_sdk(
    client: httpx.AsyncClient, old: Waiting, name: str | None = None, **descriptor: Any
) -> httpx.Response:
    """As clients that have the part of an earlier version, whose id of the approval names the call alone."""
    name = name or call_id_of(Answer(old.run_id), old.call["call_id"])
    part = {
        "type": "tool-post.send",
        "toolCallId": name,
        "state": "approval-responded",
        "input": old.call["args"],
        "approval": {"id": name, "approved": True, **descriptor},
    }
    message = {"id": f"msg_{old.run_id}", "role": "assistant", "parts": [{"type": "step-start"}, part]}
    body = {"id": CONVERSATION, "trigger": "submit-message", "messages": [message]}
    return await client.post("/ai-sdk/player", json=body)


async def by_ai_sdk_with_digest(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    return await by_ai_sdk(client, old, descriptor={"argsHash": old.call["args_hash"]})


async def by_ai_sdk_with_its_id(client: httpx.AsyncClient, old: Waiting) -> httpx.Response:
    return await by_ai_sdk(client, old, old.request_id)


REPEATS: list[Callable[[httpx.AsyncClient, Waiting], Any]] = [
    by_pause,
    by_pause_at_the_newest_revision,
    by_conversation,
    blindly,
    by_langgraph,
    by_langgraph_without_id,
    by_langgraph_of_the_call,
    by_responses,
    by_ai_sdk,
    by_ai_sdk_with_digest,
    by_ai_sdk_with_its_id,
]


async def begun(client: httpx.AsyncClient, path: Path) -> str:
    """A run that calls the post."""
    text = script(["tool", "post.send", {"path": str(path)}, "model-1"], ["say", "Bye."])
    body = {"event_type": "message.received", "agent": "player", "input": {"text": text}}
    answer = await client.post("/v1/events", json=body | {"conversation_id": CONVERSATION})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run"]["run_id"])


def check_asked_again(old: Waiting, new: Waiting) -> None:
    assert new.call["args"] == old.call["args"]
    assert new.call["args_hash"] != old.call["args_hash"]
    assert new.call["decision"] == "undecided"
    assert str(new.call["description"]).startswith("Sends a card")
    assert old.call["description"] == "Sends a card."
    assert (old.call["tool_changed"], new.call["tool_changed"]) == (False, True)


@pytest.mark.parametrize("decided", ["before the change", "after it"])
@pytest.mark.parametrize("what", CHANGES)
async def test_an_approval_is_for_the_tool_that_was_shown(
    tmp_path: Path, database_url: str, what: str, decided: str
) -> None:
    """Decided before the change and resumed after it, or decided about what was shown before it."""
    cards, folder = tmp_path / "cards", post(tmp_path / "post")
    async with host_of(tmp_path, database_url) as served:
        old = await waits(served.client, await begun(served.client, cards))
    if decided == "before the change":
        await approved_elsewhere(tmp_path, database_url, old)
    change(folder, what)
    async with host_of(tmp_path, database_url) as served:
        if decided == "after it":
            assert (await by_pause(served.client, old)).status_code == 202
        new = await waits(served.client, old.run_id, revision=2)
        check_asked_again(old, new)
        assert not cards.exists()
        for repeat in REPEATS:
            answer = await repeat(served.client, old)
            assert answer.status_code == 409, (repeat.__name__, answer.text)
            if repeat in (by_langgraph_without_id, by_langgraph_of_the_call):
                said = answer.json()
                assert said["code"] == "stale_view"
                assert f"by the id of the interrupt ({new.request_id})" in said["detail"], said
        assert (await waits(served.client, old.run_id, revision=2)).pause == new.pause
        assert (await by_pause(served.client, new)).status_code == 202
        assert (await ended(served.client, old.run_id))["status"] == "completed"
        assert cards.read_text() == "another card\n"
        assert (await by_pause(served.client, new)).status_code == 202, "the same decision again"
    assert cards.read_text() == "another card\n"


async def test_an_approval_of_the_same_tool_holds_over_a_restart(tmp_path: Path, database_url: str) -> None:
    cards = tmp_path / "cards"
    post(tmp_path / "post")
    async with host_of(tmp_path, database_url) as served:
        old = await waits(served.client, await begun(served.client, cards))
    await approved_elsewhere(tmp_path, database_url, old)
    async with host_of(tmp_path, database_url) as served:
        assert (await ended(served.client, old.run_id))["status"] == "completed"
    assert cards.read_text() == "card\n"


@pytest.mark.parametrize("what", ["description", "version"])
async def test_an_approval_of_similar_calls_ends_with_its_tool(
    tmp_path: Path, database_url: str, what: str
) -> None:
    cards, folder = tmp_path / "cards", post(tmp_path / "post")
    async with host_of(tmp_path, database_url) as served:
        first = await waits(served.client, await begun(served.client, cards))
        body = first.approval(similar={"uses": 5})
        answer = await served.client.post(f"/v1/pauses/{first.pause['id']}/actions", json=body)
        assert answer.status_code == 202, answer.text
        assert (await ended(served.client, first.run_id))["status"] == "completed"
        second = await begun(served.client, cards)
        assert (await ended(served.client, second))["status"] == "completed", "nobody is asked"
    assert cards.read_text() == "card\n" * 2
    change(folder, what)
    async with host_of(tmp_path, database_url) as served:
        third = await waits(served.client, await begun(served.client, cards))
        assert third.call["decision"] == "undecided"
    assert cards.read_text() == "card\n" * 2


def post_processes(served: Served) -> set[int]:
    """The processes of the post that the host knows of."""
    return {one.pid for one in served.host.supervisor.status() if one.tools == ("send",) and one.pid}


@pytest.mark.parametrize("what", ["description", "version"])
async def test_a_plugin_that_comes_back_changed_is_asked_about_again(
    tmp_path: Path, database_url: str, what: str
) -> None:
    """It was last seen as people have approved it, and is another once it is started for the call."""
    cards, folder = tmp_path / "cards", post(tmp_path / "post")
    async with host_of(tmp_path, database_url) as served:
        old = await waits(served.client, await begun(served.client, cards))
        change(folder, what)
        (pid,) = post_processes(served)
        os.kill(pid, signal.SIGKILL)
        while pid in post_processes(served):
            await asyncio.sleep(LOOK_SECONDS)
        assert (await by_pause(served.client, old)).status_code == 202
        new = await waits(served.client, old.run_id, revision=2)
        check_asked_again(old, new)
        assert not cards.exists()
        assert (await by_pause(served.client, new)).status_code == 202
        assert (await ended(served.client, old.run_id))["status"] == "completed"
    assert cards.read_text() == "another card\n"


async def test_a_killed_host_asks_again_too(tmp_path: Path, database_url: str) -> None:
    """Killed while the call waits, and once more while it waits again."""
    cards, folder = tmp_path / "cards", post(tmp_path / "post")
    plugins = [msgspec.to_builtins(trusted(one)) for one in (PLAYER, folder)]
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"plugins": plugins, "agents": [AGENT]}))
    url = database_url if database_url.startswith("postgresql:") else None
    host = HostProcess(tmp_path / "host", config, database=url, options=["--hold-seconds", "0"])
    async with serving_process(host):
        async with host.client() as client:
            old = await waits(client, await begun(client, cards))
        host.kill()
        change(folder, "description")
        await host.start()
        async with host.client() as client:
            assert (await by_pause(client, old)).status_code == 202
            new = await waits(client, old.run_id, revision=2)
        host.kill()
        await host.start()
        async with host.client() as client:
            assert (await waits(client, old.run_id, revision=2)).pause == new.pause
            check_asked_again(old, new)
            for repeat in REPEATS:
                assert (await repeat(client, old)).status_code == 409, repeat.__name__
            assert not cards.exists()
            assert (await by_pause(client, new)).status_code == 202
            assert (await ended(client, old.run_id))["status"] == "completed"
    assert cards.read_text() == "another card\n"
