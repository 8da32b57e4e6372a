"""Every route, and every place of a request that names something: what is out of reach is not there.

Paths, queries and bodies come from the routes and their types. At each place stands what exists in another
workspace, or in the installation beyond the list of the key's workspace, and what exists nowhere: the two
answers are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.mcp_entry import McpEntry
from hostler.domain.model_entries import ModelEntry
from hostler.domain.tool_entries import FetchEntry, ToolEntry
from hostler.host.config import ConfigFile
from hostler.http.app import ENDPOINTS
from hostler.http.endpoint import Endpoint
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, members, sessions
from hostler.storage.stores.artifacts import NewArtifact
from hostler_protocol.ids import new_id
from support.http_host import OTHER, PUPPET_RUNNER, WORKSPACE, Served, serving
from support.planting import planted
from support.reference_bodies import CONFIGURES, IN_AGENTS, IN_BODIES
from support.reference_walk import IN_ROUTES
from support.trust import trusted
from support.two_workspaces import SECRET, THEIR_CRON, Things, fill, keep_secrets

pytestmark = pytest.mark.gate("tenancy", "allowances")

ABSENT = "absent-from-everywhere"
ABSENT_AS = {
    "document": "absent.md",
    "plugin": f"absent/{ABSENT}",
    "runner": f"plugin:absent/{ABSENT}/default",
    "budget": f"run.0.{ABSENT}",
}
"""Where a name has a form."""
NOT_ASKED = {
    "kind of entry": "takes `installation`: the walk of routes",
    "address": "test_sign_in.py",
    "credential": "opens a session: test_key_sessions.py",
    "hook": "takes `installation`, or a signature: test_hooks.py",
    "widget": "the page's origin, or the agent of a front-end token: test_http_widgets.py",
    "identity provider": "is no secret: the page of sign-in lists them",
    "owner of secrets": "is one of two words",
    "role": "of keys, which an owner gives",
    "result": "a number",
    "receiver of a run": "is looked up among those of the run in the path: test_http_tenancy.py",
    "event, and its run": "is looked up in a thread of the key's workspace: test_ag_ui_resuming.py",
    "message, and its run": "is a run's id: test_http_tenancy.py",
    "response, and its run": "the same",
    "message": "is looked up in the conversation in the path: test_http_tenancy.py",
    "agent or model": "is looked up among those that the list has: test_http_tenancy.py",
    "file, or a call that waits": "test_ai_sdk_requests.py, test_responses_pauses.py",
    "field with a written-out secret": "takes `installation` with models; else of an own agent",
    "approver": "is a rule about people, not about things",
    "argument": "is a name within a call",
    "holder of a key": "is a word of the owner",
    "subject": "is a word of who sends an event",
    "person": "is an address",
    "account of a person on a channel": "is looked up among the workspace's own: test_http_tenancy.py",
    "remote worker": "is looked up among the workspace's own: test_http_workers.py",
    "platform action": "is a word of a fixed list: test_action_decisions.py",
    "model, tool, knowledge base, file": "the same",
    "MCP server": "is the installation's: test_http_trials.py",
    "file": "is looked up among those of the skill in the path: test_console_resources.py",
    "message, or the number of a step": "is looked up in the conversation or run in the path",
    "approval of similar calls": "is looked up among those of the workspace: test_http_pauses.py",
    "who sent an event": "only filters the events of the workspace: test_store_events.py",
    "who or what a fact is about": "only filters the facts of the workspace: test_store_audit_filters.py",
    "secret, model, tool, knowledge base, file": "is read when a run starts: test_workspace_allowances.py",
}
"""Kinds of which nothing is out of reach, or that another test asks."""
BODIES: dict[str, dict[str, Any]] = {
    **{
        f"{verb}_{kind}_run": {"assistant_id": "absent", "input": "x"}
        for verb in ("create", "stream", "wait_for")
        for kind in ("thread", "stateless")
    },
    "post_event": {"event_type": "none.such", "input": {}},
    "explain_event": {"event_type": "none.such", "input": {}},
    "act_on_pause": {"revision": 0},
    "create_agent": {"name": "planted", "runner": PUPPET_RUNNER},
    "put_agent": {"name": "planted", "runner": PUPPET_RUNNER},
    "create_token": {"agent": "puppet"},
    "create_key": {"name": "k", "rights": ["runs:read"]},
    "add_member": {"email": "walk@example.org", "role": "reader"},
}


@dataclass(frozen=True)
class Asked:
    """A request with a value at one place."""

    endpoint: Endpoint
    place: str
    kind: str
    path: str
    query: dict[str, Any]
    body: Any


def requests_with(kind_of: dict[str, str], value: str, endpoint: Endpoint, ours: Things) -> Iterator[Asked]:
    """Yield a request for each place of a route that names a thing of one of these kinds."""
    known = {"name": "planted", "agent": "puppet", "conversation_id": "same", "call": "1", **vars(ours)}
    plain = {name: known.get(name, "none") for name in endpoint.parameters}
    body = None if endpoint.body is None else BODIES.get(endpoint.name)
    if endpoint.body is not None and body is None:
        places = planted(endpoint.body)
        body = places[0].build("x") if places else {}
    path = partial(_path, endpoint)
    for name in endpoint.parameters:
        if name in kind_of:
            yield Asked(endpoint, name, kind_of[name], path({**plain, name: value}), {}, body)
    fields = () if endpoint.query is None else msgspec.structs.fields(endpoint.query)
    for field in fields:
        if field.encode_name in kind_of:
            query = {field.encode_name: value}
            yield Asked(endpoint, field.encode_name, kind_of[field.encode_name], path(plain), query, body)
    if endpoint.body is None:
        return
    table = IN_AGENTS if endpoint.body is AgentSpec else IN_BODIES
    given = {"": BODIES[endpoint.name]} if endpoint.name in BODIES else {}
    for place in planted(endpoint.body, {**given, "actions[]": {"call_id": "x", "type": "deny"}}):
        if place.name in table and table[place.name].kind in kind_of.values():
            yield Asked(endpoint, place.name, table[place.name].kind, path(plain), {}, place.build(value))


def _path(endpoint: Endpoint, parameters: dict[str, str]) -> str:
    return endpoint.path.format(**{name: quote(value, safe="") for name, value in parameters.items()})


async def out_of_reach(served: Served, theirs: httpx.AsyncClient, foreign: Things) -> dict[str, list[str]]:
    """By kind: what exists, and is not for the workspace of the walk."""
    await served.agent("only-neighbours", OTHER)
    blob = await served.host.blobs.put(b"x")
    event = {"event_type": "none", "input": {}, "event_id": "event-of-theirs", "conversation_id": "theirs"}
    event |= {"thread_id": "thread-of-theirs", "bot_id": "bot-of-theirs"}
    assert (await theirs.post("/v1/events", json=event)).status_code == 202
    new = NewArtifact(artifact_type="file", blob=blob, source="upload", artifact_id="theirs")

    def store(tx: Tx) -> str:
        artifacts.create(tx, OTHER, new)
        member = members.add(tx, OTHER, email="s@example.org", name="s", role="reader", by="test")
        session, _, _ = sessions.create(
            tx,
            OTHER,
            member.member_id,
            "session-of-theirs",
            provider="corp",
            issuer="https://id.example",
            agent="test",
            seconds=3600,
            idle_seconds=3600,
        )
        return session.session_id

    session_id = await served.host.db.write(store)
    pages = [(await theirs.get(path, params={"limit": 1})).json() for path in ("/v1/events", "/v1/audit")]
    return {
        "run": [foreign.run_id],
        "event": ["event-of-theirs"],
        "conversation": ["theirs"],
        "thread": ["thread-of-theirs"],
        "bot": ["bot-of-theirs"],
        "bot, channel, conversation or workspace": ["theirs", OTHER],
        "artifact": ["theirs"],
        "pause": [foreign.pause_id],
        "call": ["other-call"],
        "delivery": [foreign.delivery_id],
        "webhook": [SECRET],
        "channel": ["theirs"],
        "key": [foreign.key_id],
        "member": [foreign.member_id],
        "token": [foreign.token_id],
        "session": [session_id],
        "actor": [SECRET],
        "budget": ["run.0.theirs"],
        "agent": ["only-neighbours"],
        "agent, schedule, secret or entry": ["only-neighbours", "theirs"],
        "agent, key or member, or the entry with a secret": ["only-neighbours"],
        "workspace": [OTHER],
        "cursor": [page["next_cursor"] for page in pages],
        "plugin": ["test/careless"],
        "runner": ["plugin:test/careless/impatient"],
        "model": ["big"],
        "tool": ["fetch", "hidden.of_a_server_that_is_down"],
        "knowledge base": ["theirs"],
        "document": ["theirs.md"],
        "skill": ["hidden-skill"],
        "item": [SECRET],
        "cron": [THEIR_CRON],
    }


def answer_of(answer: httpx.Response, value: str) -> tuple[int, str]:
    """Status, and what a refusal says, with `<it>` in the place of what was named."""
    if answer.status_code < 400:
        return answer.status_code, ""
    text = answer.text
    for one in (value, quote(value, safe="")):
        text = re.sub(rf"(?<!\w){re.escape(one)}(?!\w)", "<it>", text)
    return answer.status_code, re.sub(r'"[a-z_]*_(at|id)":[^,}]*', "", text)


async def shared(served: Served, tmp_path: Path) -> None:
    """What the installation has and the own workspace may not use."""
    skill = tmp_path / "hidden-skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: hidden-skill\ndescription: hidden\n---\nHidden.\n")
    plugins = Path(__file__).parents[2] / "support" / "plugins"
    models = [
        ModelEntry(id=name, base_url="https://models.invalid/v1", api_key="k") for name in ("big", "small")
    ]
    config = ConfigFile(
        plugins=[trusted(plugins / "careless")],
        models=models,
        tools=[
            ToolEntry(fetch=FetchEntry()),
            ToolEntry(mcp=McpEntry(name="hidden", url="http://127.0.0.1:9/mcp", network=["127.0.0.1:9"])),
        ],
        skills=[str(skill)],
    )
    await served.host.apply(config, actor="test")
    entry = {"name": WORKSPACE, "plugins": ["test/puppet"], "models": ["small"], "tools": [], "skills": []}
    answer = await served.client.put(f"/v1/config/workspaces/{WORKSPACE}", json=entry)
    assert answer.status_code == 200, answer.text


ENDLESS = {"stream_conversation", "stream_workspace"}
"""What they show is filtered by the workspace of the key, whatever they name (test_timeline_streams.py)."""


async def test_what_is_out_of_reach_is_answered_like_what_does_not_exist(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await shared(served, tmp_path)
        ours, own = await fill(served, WORKSPACE, "ours")
        theirs, foreign = await fill(served, OTHER, SECRET)
        await keep_secrets(served)
        hidden = await out_of_reach(served, theirs, foreign)
        kind_of = {name: bound.kind for name, bound in IN_ROUTES.items()}
        every = {bound.kind for table in (IN_ROUTES, IN_BODIES, IN_AGENTS) for bound in table.values()}
        assert every == set(hidden) | set(NOT_ASKED), every ^ (set(hidden) | set(NOT_ASKED))
        asked = set()
        for endpoint in ENDPOINTS:
            if endpoint.name in CONFIGURES or endpoint.right == "installation":
                continue
            for kind, values in hidden.items():
                names = {name: one for name, one in kind_of.items() if one == kind}
                for number, value in enumerate(values):
                    absent = ABSENT_AS.get(kind, f"{ABSENT}-{number}")
                    if kind == "tool" and "." in value:
                        absent = f"absent.{number}"
                    pairs = zip(
                        requests_with(names or {"": kind}, value, endpoint, own),
                        requests_with(names or {"": kind}, absent, endpoint, own),
                        strict=True,
                    )
                    for there, nowhere in pairs:
                        if (endpoint.name, there.place) == ("create_thread", "thread_id"):
                            continue  # requests before have begun it here: test_http_tenancy.py
                        told = []
                        for one, named in ((nowhere, absent), (there, value)):
                            if endpoint.name == "add_member":  # somebody else each time
                                one.body["email"] = f"{new_id()}@example.org"
                            if endpoint.name in ENDLESS:
                                one.query.setdefault("last_event_id", "none")
                            answer = await ours.request(
                                endpoint.method, one.path, params=one.query, json=one.body
                            )
                            assert answer.status_code < 500, (endpoint.name, one.place, answer.text)
                            assert named == SECRET or SECRET not in answer.text, (endpoint.name, one.place)
                            told.append(answer_of(answer, named))
                            if endpoint.name == "create_knowledge_base" and answer.status_code < 300:
                                await ours.delete(f"/v1/knowledge/{quote(one.body['kb_id'], safe='')}")
                            if endpoint.body is AgentSpec and answer.status_code < 300:
                                await ours.delete(f"/v1/agents/{quote(one.body['name'], safe='')}")
                        if kind == "cursor":  # says what is wrong with it
                            told = [(status, "") for status, _ in told]
                        assert told[0] == told[1], (endpoint.name, there.place, value, told)
                        asked.add((endpoint.name, there.place))
        assert len(asked) > 120, sorted(asked)
        await ours.aclose()
        await theirs.aclose()
