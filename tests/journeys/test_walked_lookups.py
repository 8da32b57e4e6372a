"""A reference to a secret wherever a text can stand: it is looked up at the places of the table alone.

The places come from the types: of configurations, of bodies of routes, of host calls. A reference of each
kind is written into each, and the process is watched for the variable, the file, the stored secret or the
program.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from hostler.host.config import ConfigFile
from hostler.host.config_entries import ENTRY_KINDS, EntryKind
from hostler.http.app import ENDPOINTS
from hostler.http.endpoint import Endpoint
from hostler.models.catalog import build_catalog
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.calls import CALLS
from hostler_protocol.errors import HostlerError
from support.call_params import ARGUMENTS
from support.call_world import MODELS, world_of
from support.http_host import OTHER, WORKSPACE, Served, serving
from support.lookups import CANARY, STORED_NAME, Lookups
from support.model_server import ModelServer
from support.planting import Place, planted
from support.reference_walk import SECRET_PLACES
from support.two_workspaces import Things, fill, keep_secrets

pytestmark = pytest.mark.gate("references")

BOUND_SECONDS = 230.0
SUPPORT = Path(__file__).parents[1] / "support"
RUNNER = "plugin:test/collector/default"
FORM = [
    {"name": "key", "type": "secret"},
    {"name": "address", "type": "string"},
    {"name": "more", "type": "json"},
]
ELSEWHERE = {
    "tools.openapi.auth{}": "test_openapi_petstore.py",
    "sign_in.client_secret": "test_sign_in.py",
    "audit_anchors.earlier_keys[]": "test_anchored_chains.py",
    "webhooks.url": "test_webhooks.py",
    "webhooks.secret": "test_webhooks.py",
    "channels.config{}": "test_channel_service.py",
}
"""Places whose references are looked up later than their entry is applied, and the tests that show it."""


class Walk:
    """A host with the collector, a model, a store of secrets, and another workspace."""

    def __init__(self, served: Served, lookups: Lookups, folder: Path) -> None:
        self.served, self.lookups, self.folder = served, lookups, folder
        self.anchor_key = folder.parent / "anchor-key"
        self.anchor_key.write_text("k" * 40)

    @contextlib.asynccontextmanager
    async def tenant(self) -> AsyncIterator[httpx.AsyncClient]:
        async with self.served.as_key(await self.served.key(OTHER)) as client:
            yield client

    async def run(self, client: httpx.AsyncClient, agent: str) -> dict[str, Any]:
        body = {"event_type": "message.received", "input": {"text": "hi"}, "agent": agent}
        return dict((await client.post("/v1/events", json=body, params={"wait": 30})).json())

    async def forget(self, kind: EntryKind) -> None:
        """Remove the entries of a kind but for the plugins."""
        if kind.field in ("plugins", "master_key"):
            return
        path = f"/v1/config/{kind.field}"
        for entry in (await self.served.client.get(path)).json()["items"]:
            answer = await self.served.client.delete(f"{path}/{quote(entry['name'], safe='')}")
            assert answer.status_code == 200, answer.text

    async def settle(self) -> None:
        """Wait until servers that were configured have been started, or have failed."""
        async with asyncio.timeout(30):
            while any(
                one["state"] == "connecting"
                for one in (await self.served.client.get("/v1/mcp-servers")).json()["items"]
            ):
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def walking(tmp_path: Path) -> AsyncIterator[Walk]:
    folder = tmp_path / "collector"
    shutil.copytree(SUPPORT / "plugins" / "collector", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "forms.json").write_text(json.dumps({"default": FORM}))
    lookups = Lookups(tmp_path)
    async with (
        asyncio.timeout(BOUND_SECONDS),
        contextlib.AsyncExitStack() as stack,
    ):
        stack.enter_context(lookups.watching())
        served = await stack.enter_async_context(serving(tmp_path / "data"))
        await served.host.apply(ConfigFile(plugins=[str(folder)]), actor="test")
        await keep_secrets(served)
        await served.host.secrets.set(WORKSPACE, "installation", STORED_NAME, CANARY, "test")
        for workspace in (WORKSPACE, OTHER):
            await served.host.secrets.set(workspace, "workspace", STORED_NAME, CANARY, "test")
        yield Walk(served, lookups, folder)


# -- configurations -----------------------------------------------------------------------------------


def given(kind: str, place: str, walk: Walk, models_at: str) -> Mapping[str, Any]:
    """What an entry has besides the text that is planted, so that it is one that a host uses."""
    server: dict[str, Any] = {"name": "walk", "url": "http://127.0.0.1:9/mcp", "network": ["127.0.0.1:9"]}
    if place.startswith(("mcp.command", "mcp.environment", "mcp.read", "mcp.write", "mcp.cwd")):
        server = {"name": "walk", "command": ["/bin/false"]}
    base: dict[str, Any] = {
        "plugins": {"path": str(walk.folder)},
        "models": {"id": "walk", "base_url": models_at, "api_key": "written-out"},
        "workspaces": {"name": "walkers"},
        "agents": {"name": "walk", "runner": RUNNER},
        "widgets": {"name": "walk", "agent": "walk", "origins": ["https://a.example"]},
        "hooks": {"name": "walk", "verify": "github", "secrets": ["env:HOSTLER_TEST_UNSET"]},
        "webhooks": {"name": "walk", "url": "https://hooks.invalid/", "secret": "env:HOSTLER_TEST_UNSET"},
        "sign_in": {
            "name": "walk",
            "issuer": "https://id.invalid",
            "client_id": "walk",
            "redirect_url": "https://host.invalid/v1/auth/callback",
        },
        "audit_anchors": {"key": f"file:{walk.anchor_key}", "file": str(walk.folder.parent / "anchors")},
    }
    found: dict[str, Any] = {"": base[kind]} if kind in base else {}
    if kind == "tools":
        document = str(SUPPORT / "openapi" / "petstore.yaml")
        found |= {
            "mcp": server,
            "openapi": {"name": "walk", "document": document},
            "exec": {"name": "walk"},
            "fetch": {"name": "walk"},
            "files": {"name": "walk"},
        }
    return found


def with_secret_field(name: str, build: Any) -> Any:
    """The entry that is planted; a text in `config` of an agent is in its field of the type `secret`."""

    def built(text: str) -> Any:
        entry = build(text)
        if name == "config{}":
            entry["config"] = {"key": entry["config"]["key"]}
        return entry

    return built


def document_of(kind: EntryKind, entry: Any) -> dict[str, Any]:
    """A configuration with this entry alone."""
    if kind.field in ("master_key", "pause_key"):
        return {kind.field: entry["keys"]}
    if kind.field == "skills":
        return {kind.field: [entry["path"]]}
    return {kind.field: entry if kind.single else [entry]}


def places(kind: EntryKind, walk: Walk, models_at: str) -> list[Place]:
    """Every place of an entry, each in an entry that a host uses."""
    found = []
    for place in planted(kind.type):
        fitted = {one.name: one for one in planted(kind.type, given(kind.field, place.name, walk, models_at))}
        found.append(fitted[place.name])
    return found


async def test_in_a_configuration_at_the_places_of_the_table_alone(tmp_path: Path) -> None:
    looked_up, applied = set(), set()
    with ModelServer() as server:
        server.always("hi")
        async with walking(tmp_path) as walk:
            client = walk.served.client
            for kind in sorted(ENTRY_KINDS.values(), key=lambda one: one.kind == "master_key"):  # it stays
                for place in places(kind, walk, server.base_url):
                    name = f"{kind.field}.{place.name}"
                    for prefix, reference in walk.lookups.references.items():
                        entry = with_secret_field(place.name, place.build)(reference)
                        walk.lookups.take()
                        answer = await client.post("/v1/config", json=document_of(kind, entry))
                        assert answer.status_code in (200, 400), (name, answer.text)
                        assert CANARY not in answer.text, name
                        if answer.status_code == 200:
                            applied.add(name)
                            if kind.field == "agents":
                                await walk.run(client, entry["name"])
                            if kind.field == "tools":
                                await walk.settle()
                        seen = walk.lookups.take()
                        allowed = {prefix} & set(SECRET_PLACES.get(name, ()))
                        assert seen <= allowed, (name, reference, seen)
                        looked_up |= {(name, one) for one in seen}
                        if answer.status_code == 200:
                            await walk.forget(kind)
            shown = await client.get("/v1/config")
            assert CANARY not in shown.text
    wanted = {(name, one) for name, found in SECRET_PLACES.items() for one in found if name not in ELSEWHERE}
    assert looked_up == wanted, looked_up ^ wanted
    assert len(applied) > 40, sorted(applied)


# -- bodies of routes ---------------------------------------------------------------------------------

CONFIGURES = {"apply_config", "add_entry", "put_entry"}
"""Their bodies are configurations, which the test above walks."""
AGENTS = {"create_agent", "put_agent"}


def bodies(endpoint: Endpoint, things: Things) -> list[Place]:
    """Every place of a body, each in one that the route accepts as far as that can be known."""
    base: dict[str, dict[str, Any]] = {
        "post_event": {"event_type": "message.received", "input": {"text": "say 1"}},
        "act_on_pause": {"revision": 1},
        "act_on_conversation": {"conversation_id": "same"},
        "create_agent": {"name": "planted", "runner": RUNNER},
        "put_agent": {"name": "planted", "runner": RUNNER},
        "create_key": {"name": "k", "rights": ["runs:read"]},
        "add_member": {"email": "walk@example.org", "role": "reader"},
    }
    fitting = {"": base[endpoint.name]} if endpoint.name in base else {}
    fitting["actions[]"] = {"call_id": "call", "type": "approve"}
    fitting["tool_actions[]"] = {"call_id": "call"}
    return planted(endpoint.body, fitting)


def path_for(endpoint: Endpoint, things: Things) -> str:
    known = {"name": "planted", "call_id": "call", "agent": "puppet", **vars(things)}
    return endpoint.path.format(**{name: known.get(name, "none") for name in endpoint.parameters})


@pytest.mark.parametrize("who", ["a tenant", "a tenant with a list", "the installation"])
async def test_in_no_body_of_a_request(tmp_path: Path, who: str) -> None:
    """Agents may name secrets if the installation writes them; nothing else that is sent is looked up."""
    workspace = WORKSPACE if who == "the installation" else OTHER
    tried, let_in = 0, set()
    async with walking(tmp_path) as walk:
        client, things = await fill(walk.served, workspace, "whose")
        if who == "the installation":
            client = walk.served.client
        if who == "a tenant with a list":
            entry = {
                "name": OTHER,
                "secrets": ["env:OTHERS_*", f"file:{tmp_path}/others/*", "secret://others"],
            }
            answer = await walk.served.client.put(f"/v1/config/workspaces/{OTHER}", json=entry)
            assert answer.status_code == 200, answer.text
        for endpoint in ENDPOINTS:
            if endpoint.body is None or endpoint.name in CONFIGURES:
                continue
            if endpoint.name in AGENTS and who == "the installation":
                continue
            for place in bodies(endpoint, things):
                for prefix, reference in walk.lookups.references.items():
                    body = place.build(reference)
                    if prefix == "secret://" and endpoint.name in AGENTS and who == "a tenant":
                        continue  # its own: the right `secrets:write` is enough
                    path = path_for(endpoint, things)
                    answer = await client.request(endpoint.method, path, json=body, params=query_of(endpoint))
                    assert answer.status_code < 500, (endpoint.name, place.name, answer.text)
                    assert CANARY not in answer.text
                    if answer.status_code < 300:
                        let_in.add(endpoint.name)
                        if endpoint.name in AGENTS:
                            await walk.run(client, body["name"])
                    seen = walk.lookups.take()
                    assert not seen, (endpoint.name, place.name, reference, seen)
                    tried += 1
    assert tried > 400, "the walk shows nothing"
    assert {"post_event", "fork_run", "create_key"} <= let_in, let_in


def query_of(endpoint: Endpoint) -> dict[str, Any]:
    return {"wait": 20} if endpoint.name == "post_event" else {}


# -- host calls ---------------------------------------------------------------------------------------


async def test_in_no_parameter_of_a_host_call(database: SqlDatabase, tmp_path: Path) -> None:
    lookups, tried = Lookups(tmp_path), 0
    with ModelServer() as server, lookups.watching():
        server.always("hi")
        models = build_catalog([msgspec.structs.replace(one, base_url=server.base_url) for one in MODELS])
        async with world_of(database, tmp_path, models) as world:
            caller = world.caller()
            for method, call in CALLS.items():
                for place in planted(call.params, {"": ARGUMENTS[method]}):
                    for reference in lookups.references.values():
                        arguments = place.build(reference)
                        with contextlib.suppress(HostlerError, msgspec.ValidationError):
                            await caller.call(method, **{k: v for k, v in arguments.items() if k != "run_id"})
                        tried += 1
                        seen = lookups.take()
                        assert not seen, (method, place.name, reference, seen)
    assert tried > 800, "the walk shows nothing"
