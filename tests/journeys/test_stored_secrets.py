"""Stored secrets: they go in and are used, and never come out; each in its place, and rotated at work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.host.config import ConfigFile
from hostler.models.port import ModelRequest
from hostler.secrets.key_ring import KeyRing, new_key
from hostler_protocol.content import ModelMessage
from support.every_row import everything
from support.http_host import OTHER, Served, serving
from support.keepers import keeper, keeper_plugin, mark_of
from support.model_server import ModelServer
from support.trust import trusted

pytestmark = pytest.mark.gate("stored-secrets")

BOUND_SECONDS = 110.0
FIRST, SECOND = "the-first-value-of-it", "and-another-one-later"
MASTER, LATER = new_key(), new_key()
REFERENCE = "secret://token"


@contextlib.asynccontextmanager
async def keeping(
    tmp_path: Path, database: str | None = None, data: str = "data", **settings: Any
) -> AsyncIterator[Served]:
    """A host with a master key and the plugin of `keepers`."""
    key, plugin = tmp_path / "master", tmp_path / "keeper"
    if not key.exists():
        key.write_text(MASTER.hex())
        keeper_plugin(plugin)
    config = ConfigFile(plugins=[trusted(plugin)], master_key=[f"file:{key}"])
    url = database if database and database.startswith("postgresql:") else None
    settings.setdefault("erasure_key", (tmp_path / "erasure.key",))
    async with (
        asyncio.timeout(BOUND_SECONDS),
        serving(tmp_path / data, agent=False, database=url, **settings) as served,
    ):
        await served.host.apply(config, actor="test")
        yield served


async def put(client: httpx.AsyncClient, name: str, value: str, **query: Any) -> httpx.Response:
    answer = await client.put(f"/v1/secrets/{name}", json={"value": value}, params=query)
    assert value not in answer.text
    return answer


async def stored(client: httpx.AsyncClient, name: str, value: str, **query: Any) -> dict[str, Any]:
    answer = await put(client, name, value, **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def said(client: httpx.AsyncClient, agent: str = "keeper") -> tuple[str, str]:
    """How a run of the agent ends, and which secret it had or why it had none."""
    body = {"event_type": "message.received", "input": {"text": "hi"}, "agent": agent}
    run = (await client.post("/v1/events", json=body, params={"wait": 60})).json()
    if run["status"] == "completed":
        return "completed", run["output"]["text"]
    journal = (await client.get(f"/v1/runs/{run['run_id']}/journal")).json()["items"]
    return run["status"], next(one["data"]["error"] for one in journal if one["type"] == "run.failed")


async def facts(client: httpx.AsyncClient, action: str) -> list[dict[str, Any]]:
    """Audit facts, oldest first."""
    found = (await client.get("/v1/audit", params={"limit": 100})).json()["items"]
    return [fact for fact in reversed(found) if fact["action"] == action]


async def test_a_secret_goes_in_is_used_and_never_comes_out(tmp_path: Path, database_url: str) -> None:
    async with keeping(tmp_path, database_url) as served:
        client = served.client
        record = await stored(client, "token", FIRST)
        assert (record["reference"], record["version"], record["set_by"]) == (REFERENCE, 1, "admin")
        assert (record["used_at"], record["referred_by"], record["problem"]) == (None, [], None)
        made = await client.put("/v1/agents/keeper", json=keeper(REFERENCE))
        assert (made.status_code, made.json()["problems"]) == (200, [])
        assert await said(client) == ("completed", mark_of(FIRST))
        (listed,) = (await client.get("/v1/secrets")).json()["items"]
        assert listed["referred_by"] == ["agent keeper: config.key"]
        (run,) = (await client.get("/v1/runs")).json()["items"]
        assert listed["used_by"] == f"run {run['run_id']}"
        assert listed["used_at"] is not None
        # a new value: the next run has it, the process is the same
        assert (await stored(client, "token", SECOND))["version"] == 2
        assert await said(client) == ("completed", mark_of(SECOND))
        in_use = await client.delete("/v1/secrets/token")
        assert (in_use.status_code, in_use.json()["code"]) == (409, "conflict")
        assert "agent keeper: config.key" in in_use.json()["detail"]
        assert (await client.delete("/v1/secrets/token", params={"force": True})).status_code == 204
        assert (await client.delete("/v1/secrets/token")).status_code == 404
        status, why = await said(client)
        assert (status, "there is no such secret of this workspace" in why) == ("failed", True)
        problems = (await client.get("/v1/agents/keeper")).json()["problems"]
        assert "there is no such secret of this workspace" in problems[0]["problem"]
        changes = [(fact["action"], fact["actor"]) for fact in await facts(client, "secret.added")]
        assert changes == [("secret.added", "admin")]
        assert [fact["body"]["version"] for fact in await facts(client, "secret.changed")] == [2]
        assert [fact["target"] for fact in await facts(client, "secret.removed")] == ["token"]
        uses = await facts(client, "secret.used")
        assert [(fact["target"], fact["body"]["version"]) for fact in uses] == [("token", 1), ("token", 2)]
        assert uses[0]["body"]["by"] == f"run {run['run_id']}"
        for text in [answer.text async for answer in all_answers(client)]:
            assert FIRST not in text
            assert SECOND not in text


async def all_answers(client: httpx.AsyncClient) -> AsyncIterator[httpx.Response]:
    paths = [
        "secrets",
        "agents",
        "runs",
        "audit",
        "events",
        "config",
        "config/agents",
        "problems",
        "master-keys",
        "usage",
    ]
    for path in paths:
        answer = await client.get(f"/v1/{path}")
        assert answer.status_code == 200, path
        yield answer


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("a b", "value", "no name of a secret"),
        (".hidden", "value", "no name of a secret"),
        ("x" * 101, "value", "no name of a secret"),
        ("token", " \n ", "the value is empty"),
        ("token", "é" * 20_000, "40,000 bytes; at most 32,768"),
    ],
)
async def test_wrong_names_and_values_are_refused_without_repeating_them(
    tmp_path: Path, name: str, value: str, why: str
) -> None:
    async with keeping(tmp_path) as served:
        refused = await put(served.client, name, value)
        assert refused.status_code == 400
        assert why in refused.json()["detail"]
        assert (await served.client.get("/v1/secrets")).json()["items"] == []


async def test_a_workspace_reaches_its_own_secrets_and_no_others(tmp_path: Path) -> None:
    """Neither those of another workspace nor those of the installation, by whatever key and place."""
    async with keeping(tmp_path) as served:
        await stored(served.client, "token", "the operator's own")
        await stored(served.client, "token", "the installation's", owner="installation")
        writer = await served.key(OTHER, "agents:write", "agents:read", "secrets:write", "secrets:read")
        async with served.as_key(await served.key(OTHER)) as admin, served.as_key(writer) as client:
            assert (await client.get("/v1/secrets")).json()["items"] == []
            assert (await client.delete("/v1/secrets/token")).status_code == 404
            for method in ("GET", "PUT", "DELETE"):
                path = "/v1/secrets" if method == "GET" else "/v1/secrets/token"
                body = {"value": "mine"} if method == "PUT" else None
                for stranger in (client, admin):
                    answer = await stranger.request(method, path, json=body, params={"owner": "installation"})
                    assert (answer.status_code, answer.json()["code"]) == (403, "unauthorized")
            moved = {"kind": "models", "name": "m"}
            assert (await client.put("/v1/secrets/x/from", json=moved)).status_code == 403
            assert (await client.put("/v1/agents/keeper", json=keeper(REFERENCE))).status_code == 200
            status, why = await said(admin)
            assert (status, "no such secret of this workspace" in why) == ("failed", True)
            await stored(client, "token", FIRST)
            assert await said(admin) == ("completed", mark_of(FIRST))
        async with served.as_key(await served.key(OTHER, "agents:write", "agents:read")) as less:
            # who may not set secrets may not have one handed to a runner of his choice, either
            refused = await less.put("/v1/agents/thief", json=keeper(REFERENCE, "thief"))
            assert (refused.status_code, "secrets:write" in refused.json()["detail"]) == (403, True)
            changed = keeper(REFERENCE, concurrency={"on_busy": "parallel"})
            assert (await less.put("/v1/agents/keeper", json=changed)).status_code == 200
            assert (await less.put("/v1/secrets/token", json={"value": "x"})).status_code == 403
            assert (await less.get("/v1/secrets")).status_code == 403
        values = (await served.client.get("/v1/secrets")).json()["items"]
        assert [secret["version"] for secret in values] == [1], "nothing of the others changed"


async def test_the_list_of_a_workspace_bounds_its_stored_secrets_too(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served:
        entry = {"name": OTHER, "secrets": ["secret://crm-*"]}
        assert (await served.client.post("/v1/config/workspaces", json=entry)).status_code == 201
        async with served.as_key(await served.key(OTHER)) as client:
            await stored(client, "crm-token", FIRST)
            await stored(client, "token", SECOND)
            refused = await client.put("/v1/agents/keeper", json=keeper(REFERENCE))
            assert (refused.status_code, "may not use secret" in refused.json()["detail"]) == (403, True)
            allowed = await client.put("/v1/agents/keeper", json=keeper("secret://crm-token"))
            assert allowed.status_code == 200
            assert await said(client) == ("completed", mark_of(FIRST))
            await served.client.put(f"/v1/config/workspaces/{OTHER}", json={**entry, "secrets": []})
            status, why = await said(client)
            assert (status, "may not use secret" in why) == ("failed", True)


async def test_entries_of_the_configuration_use_those_of_the_installation(tmp_path: Path) -> None:
    """A model has its key at the next call after a rotation; the use of each is audited, once in an hour."""
    async with ModelServer() as server, keeping(tmp_path) as served:
        server.always("ok")
        model = {"id": "m", "base_url": server.base_url, "model": "x", "api_key": "secret://model-key"}
        diff = (await served.client.post("/v1/config/models", json=model)).json()
        (problem,) = [one for one in diff["problems"] if one["kind"] == "model"]
        assert "`hostler secrets set model-key --installation` stores it" in problem["problem"]
        record = await stored(served.client, "model-key", "sk-first", owner="installation")
        assert record["referred_by"] == ["model m: api_key"]
        assert (await served.client.get("/v1/problems")).json()["items"] == []
        models = served.host.models

        async def call() -> str:
            await models.get("m").provider.invoke(
                ModelRequest(messages=[ModelMessage(role="user", content="hi")])
            )
            return str(server.requests[-1].headers["authorization"])

        assert await call() == "Bearer sk-first"
        assert await call() == "Bearer sk-first"
        await stored(served.client, "model-key", "sk-second", owner="installation", existing=True)
        assert await call() == "Bearer sk-second"
        await served.host.secrets.note_uses()
        while len(uses := await facts(served.client, "secret.used")) < 2:
            await asyncio.sleep(0.01)  # a worker writes them, too
        assert {(fact["target"], fact["body"]["by"]) for fact in uses} == {("model-key", "model m")}
        assert [fact["body"]["version"] for fact in uses] == [1, 2]
        (listed,) = (await served.client.get("/v1/secrets", params={"owner": "installation"})).json()["items"]
        assert (listed["used_by"], listed["version"]) == ("model m", 2)
        agents = (await served.client.get("/v1/secrets")).json()["items"]
        assert agents == [], "the two kinds of owners share no names"
        await served.client.delete("/v1/secrets/model-key", params={"owner": "installation", "force": True})
        (problem,) = (await served.client.get("/v1/problems")).json()["items"]
        assert (problem["kind"], problem["name"]) == ("model", "m")


async def test_without_a_master_key_nothing_is_stored_and_it_is_said_how(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        refused = await put(served.client, "token", FIRST)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_argument")
        assert "hostler config set master_key" in refused.json()["detail"]


async def test_a_store_whose_key_is_missing_says_so_until_it_is_back(tmp_path: Path) -> None:
    model = {"id": "m", "provider": "openai", "api_key": "secret://model-key"}
    async with keeping(tmp_path) as served:
        await stored(served.client, "token", FIRST)
        await stored(served.client, "model-key", SECOND, owner="installation")
        await served.client.post("/v1/config/models", json=model)
        for agent in (keeper(REFERENCE), keeper("written out", "written"), keeper("env:PATH", "plain")):
            await served.client.put(f"/v1/agents/{agent['name']}", json=agent)
    (tmp_path / "master").rename(tmp_path / "away")
    (tmp_path / "master").write_text(LATER.hex())
    missing = KeyRing([MASTER]).current_id
    async with keeping(tmp_path) as served:
        problems = {
            one["kind"]: one["problem"] for one in (await served.client.get("/v1/problems")).json()["items"]
        }
        what = "2 secrets and 1 keys of content and 1 keys of written-out secrets"
        assert f"{what} cannot be opened" in problems["master_key"]
        assert missing in problems["master_key"]
        assert missing in problems["model"]
        assert missing in problems["agent"]
        for name in ("keeper", "written", "plain"):
            body = {"event_type": "message.received", "input": {"text": "hi"}, "agent": name}
            refused = await served.client.post("/v1/events", json=body)
            assert refused.status_code == 503, "content cannot be sealed either"
            assert missing in refused.json()["detail"]
        (listed,) = (await served.client.get("/v1/secrets")).json()["items"]
        assert missing in listed["problem"]
        keys = (await served.client.get("/v1/master-keys")).json()["items"]
        assert [(key["key_id"], key["current"], key["uses"]) for key in keys] == [
            (KeyRing([LATER]).current_id, True, {}),
            (missing, False, {"secrets": 2, "keys of content": 1, "keys of written-out secrets": 1}),
        ]
        (tmp_path / "master").unlink()
        await served.host.configurator.load()
        (tmp_path / "away").rename(tmp_path / "master")
        await served.host.configurator.load()
        assert (await served.client.get("/v1/problems")).json()["items"] == []
        assert await said(served.client) == ("completed", mark_of(FIRST))
        assert await said(served.client, "written") == ("completed", mark_of("written out"))


async def test_the_master_key_is_rotated_under_use(tmp_path: Path, database_url: str) -> None:
    """All keys are wrapped anew meanwhile, no run fails, and the old key may go once nothing is under it."""
    async with keeping(tmp_path, database_url) as served:
        client, stop = served.client, asyncio.Event()
        for number in range(250):
            await served.host.secrets.set("default", "workspace", f"s-{number:03}", f"value {number}", "test")
        await stored(client, "token", FIRST)
        await client.put("/v1/agents/keeper", json=keeper(REFERENCE))

        async def use() -> set[tuple[str, str]]:
            seen = set()
            while not stop.is_set():
                seen.add(await said(client))
            return seen

        using = asyncio.create_task(use())
        (tmp_path / "later").write_text(LATER.hex())
        new, old = f"file:{tmp_path / 'later'}", f"file:{tmp_path / 'master'}"
        await served.host.apply(ConfigFile(master_key=[new, old]), actor="test")
        old_id, new_id = KeyRing([MASTER]).current_id, KeyRing([LATER]).current_id
        while True:
            keys = (await client.get("/v1/master-keys")).json()["items"]
            uses = {key["key_id"]: key["uses"] for key in keys}
            if uses == {new_id: {"secrets": 251, "keys of content": 1}, old_id: {}}:
                break
            await asyncio.sleep(0.05)
        await served.host.apply(ConfigFile(master_key=[new]), actor="test")
        await said(client)
        stop.set()
        assert await using == {("completed", mark_of(FIRST))}
        assert (await client.get("/v1/problems")).json()["items"] == []
        keys = (await client.get("/v1/master-keys")).json()["items"]
        used = [(key["key_id"], key["uses"]) for key in keys]
        assert used == [(new_id, {"secrets": 251, "keys of content": 1})]


async def test_two_hosts_use_a_new_value_within_seconds(tmp_path: Path, database_url: str) -> None:
    if not database_url.startswith("postgresql:"):
        pytest.skip("hosts share a database server")
    async with keeping(tmp_path, database_url) as one, keeping(tmp_path, database_url, "other") as two:
        model = {"id": "m", "provider": "openai", "api_key": "secret://model-key"}
        await stored(one.client, "model-key", "sk-of-the-first", owner="installation")
        await one.client.post("/v1/config/models", json=model)
        await stored(one.client, "token", FIRST)
        await two.client.put("/v1/agents/keeper", json=keeper(REFERENCE))
        assert (await said(two.client))[1] == mark_of(FIRST)
        await stored(one.client, "token", SECOND)
        assert (await said(two.client))[1] == mark_of(SECOND), "an agent has it at once"

        while served_model(two) is None or key_of(two) != "Bearer sk-of-the-first":
            await asyncio.sleep(0.05)
        await stored(one.client, "model-key", "sk-of-the-second", owner="installation")
        assert key_of(one) == "Bearer sk-of-the-second"
        async with asyncio.timeout(10):
            while key_of(two) != "Bearer sk-of-the-second":
                await asyncio.sleep(0.05)
        await one.client.delete("/v1/secrets/model-key", params={"owner": "installation", "force": True})
        async with asyncio.timeout(10):
            while served_model(two) is not None:
                await asyncio.sleep(0.05)


def served_model(served: Served) -> Any:
    return served.host.models.find("m")


def key_of(served: Served) -> str:
    """What the host sends to the service of its model."""
    return str(served_model(served).provider._headers["authorization"])


async def test_a_secret_that_is_written_out_moves_into_the_store(tmp_path: Path) -> None:
    async with keeping(tmp_path) as served:
        client = served.client
        await client.post("/v1/config/models", json={"id": "m", "api_key": FIRST})
        await client.put("/v1/agents/keeper", json=keeper(SECOND))
        await client.put("/v1/agents/keeper", json=keeper(SECOND, concurrency={"on_busy": "parallel"}))
        model = await client.put("/v1/secrets/model-key/from", json={"kind": "models", "name": "m"})
        assert (model.status_code, model.json()["owner"]) == (200, "installation"), model.text
        body = {"kind": "agents", "name": "keeper", "field": "key"}
        agent = await client.put("/v1/secrets/token/from", json=body)
        assert (agent.status_code, agent.json()["referred_by"]) == (200, ["agent keeper: config.key"])
        assert (await client.get("/v1/config/models/m")).json()["entry"]["api_key"] == "secret://model-key"
        assert key_of(served) == f"Bearer {FIRST}"
        versions = (await client.get("/v1/agents/keeper/versions")).json()["items"]
        assert [(one["version"], one["spec"]["config"]) for one in versions] == [
            (number, {"key": REFERENCE}) for number in (3, 2, 1)
        ]
        assert await said(client) == ("completed", mark_of(SECOND))
        for again, status in [
            ({"kind": "models", "name": "m"}, 400),
            (body, 400),
            ({**body, "field": "nothing"}, 400),
            ({"kind": "models", "name": "none"}, 404),
            ({**body, "name": "none"}, 404),
        ]:
            refused = await client.put("/v1/secrets/other/from", json=again)
            assert refused.status_code == status, refused.text
        await client.put("/v1/agents/second", json=keeper(FIRST, "second"))
        taken = await client.put("/v1/secrets/token/from", json={**body, "name": "second"})
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
        rows = await served.host.db.read(everything)
        assert SECOND not in rows
        assert FIRST not in rows, "that of the second agent is sealed"
