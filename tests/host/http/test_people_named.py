"""Everything that a person with a session changes names the person: in the audit log, or in what was made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler.http.app import ENDPOINTS
from hostler.http.sessions import SAFE_METHODS
from support.dialects.mcp import stateless, stateless_headers
from support.http_host import PUPPET_RUNNER
from support.identity_provider import SECRET, Browser
from support.sign_in_desk import Desk, desk

pytestmark = pytest.mark.gate("subjects")
AGENT: dict[str, Any] = {"name": "n", "runner": PUPPET_RUNNER}
BOUNDED = {**AGENT, "name": "bounded", "resource_policy": {"budget": {"max_calls_per_day": 9}}}
ELSEWHERE = {
    "act_on_pause": "tests/host/http/test_members.py, tests/host/http/test_http_pauses.py",
    "act_on_conversation": "the same",
    "cancel_pause": "tests/host/http/test_http_pauses.py",
    "revoke_approval_rule": "the same",
    "resolve_call": "tests/host/pauses/test_pause_rights.py",
    "receive_hook": "takes no person: the hook is named, tests/host/channels/test_hooks.py",
    "receive_channel_request": "the plugin says who: tests/host/channels/test_channel_requests.py",
    "bind_person": "tests/host/channels/test_pairing.py",
    **dict.fromkeys(("unbind_person", "offer_pairing", "confirm_pairing", "reject_pairing"), "the same"),
    "preview_hook": "stores nothing: the same",
    "enter_widget": "takes no person: a visitor has no name, tests/host/http/test_http_widgets.py",
    "resend_delivery": "tests/host/host/test_webhooks.py",
    "restart_channel": "tests/host/http/test_http_channels.py",
    **dict.fromkeys(("resend_message", "drop_message"), "the same"),
    **dict.fromkeys(
        ("drain_worker", "cordon_worker", "uncordon_worker", "remove_worker"),
        "tests/host/http/test_http_workers.py",
    ),
    **dict.fromkeys(
        ("resume_protocol_run", "wait_for_resumed_run", "stream_resumed_run"),
        "tests/host/http/langgraph/test_agent_protocol.py",
    ),
    "confirm_plugin": "tests/conformance/test_store_plugin_pins.py",
    "approve_tool": "tests/host/http/test_http_mcp.py",
    "try_tool": "tests/host/http/test_http_trials.py",
    "try_model": "tests/host/http/test_http_trials.py",
    "reconnect_mcp_server": "tests/host/http/test_http_trials.py",
    "confirm_skill": "tests/conformance/test_store_skills.py",
    "create_token": "takes keys alone: tests/host/http/test_front_end_tokens.py",
    "revoke_token": "the same",
    "create_link": "takes keys alone: tests/host/http/test_key_sessions.py",
    "create_session": "begins a session: tests/host/http/test_key_sessions.py",
    **dict.fromkeys(("create_items", "delete_item"), "refused, whatever is sent"),
    **dict.fromkeys(
        (
            *("create_conversation", "update_conversation", "put_title", "upload_artifact"),
            *(
                "update_thread",
                "update_thread_state",
                "copy_thread",
                "put_store_item",
                "delete_store_item",
            ),
        ),
        "content, as the text of a message is: no fact",
    ),
    **dict.fromkeys(
        ("create_assistant", "update_assistant", "create_run_batch"),
        "refused, whatever is sent",
    ),
    **dict.fromkeys(
        (
            *("search_assistants", "count_assistants", "list_assistant_versions", "search_threads"),
            *("count_threads", "get_thread_history", "get_thread_state_of", "search_store_items"),
            *("list_store_namespaces", "search_crons", "count_crons"),
            *("search_protocol_agents", "search_protocol_runs"),
        ),
        "reads",
    ),
}
"""Writes that are not made here, and where their facts are shown."""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTLER_TEST_CLIENT_SECRET", SECRET)


@dataclass
class Ada:
    """A person who has signed in as administrator, and what the audit log says of each of her writes."""

    made: Desk
    browser: Browser
    subject: str
    seen: int = 0
    written: set[str] = field(default_factory=set)

    async def new_facts(self) -> list[dict[str, Any]]:
        found = (await self.made.served.client.get("/v1/audit?limit=100")).json()["items"]
        new = [fact for fact in found if fact["seq"] > self.seen]
        self.seen = max([self.seen, *(fact["seq"] for fact in found)])
        return new

    async def write(self, route: str, *values: str, action: str | None, **given: Any) -> Any:
        """Ask a route by its name; all new facts are hers, and `action` is one of them."""
        endpoint = next(one for one in ENDPOINTS if one.name == route)
        path = endpoint.path
        for name, value in zip(endpoint.parameters, values, strict=True):
            path = path.replace(f"{{{name}}}", value)
        answer = await self.browser.request(endpoint.method, path, **given)
        assert answer.status_code < 300, (route, answer.text)
        facts = await self.new_facts()
        assert {(fact["actor"], fact["actor_name"]) for fact in facts} <= {(self.subject, "Ada")}, route
        assert action in [*(fact["action"] for fact in facts), None], (route, facts)
        self.written.add(route)
        is_json = answer.content and answer.headers["content-type"] == "application/json"
        return answer.json() if is_json else None

    async def sent_the_last_message(self) -> None:
        """Whatever an interface says of its user, the newest event was sent by the person."""
        (newest,) = (await self.browser.get("/v1/events?limit=1")).json()["items"]
        assert newest["requester"] == self.subject


@asynccontextmanager
async def ada(tmp_path: Path) -> AsyncIterator[Ada]:
    async with desk(tmp_path, members=[{"group": "admins", "role": "administrator"}]) as made:
        browser = await made.signed_in(groups=["admins"])
        me = (await browser.get("/v1/auth/session")).json()
        person = Ada(made, browser, me["subject"])
        await person.new_facts()
        yield person


async def test_each_write_of_a_person_names_the_person(tmp_path: Path) -> None:
    async with ada(tmp_path) as person:
        await runs(person)
        await interfaces(person)
        await agents_and_artifacts(person)
        await secrets_and_configuration(person, tmp_path)
        await people(person)
        writes = {one.name for one in ENDPOINTS if one.method not in SAFE_METHODS}
        assert person.written | ELSEWHERE.keys() == writes
        assert not person.written & ELSEWHERE.keys()


async def runs(person: Ada) -> None:
    event: dict[str, Any] = {"event_type": "message.received", "agent": "puppet", "conversation_id": "c"}
    event |= {"actor": {"actor_id": "somebody else"}, "input": {"text": "say hi"}}
    run = await person.write("post_event", action=None, json=event, params={"wait": 60})
    stored = (await person.browser.get(f"/v1/events/{run['event_id']}")).json()
    assert stored["requester"] == person.subject, "whatever the event says of its actor"
    await person.write("replay_event", run["event_id"], action="event.replayed", json={})
    await person.sent_the_last_message()
    await person.write("retry_run", run["run_id"], action="run.retried", json={})
    await person.write("fork_run", run["run_id"], action="run.forked", json={})
    await person.write("replay_run", run["run_id"], action="run.replayed", json={})
    event |= {"conversation_id": "held", "input": {"text": "hold"}}
    held = await person.write("post_event", action=None, json=event)
    run_id = held["run"]["run_id"]
    await person.write("cancel_run", run_id, action="run.cancel_requested", json={"reason": "enough"})


async def interfaces(person: Ada) -> None:
    """Each write of a standard interface: who sent the message, or stopped or deleted what it made."""
    said: dict[str, Any] = {"role": "user", "content": "say 1"}
    await person.write("create_chat_completion", action=None, json={"model": "puppet", "messages": [said]})
    await person.sent_the_last_message()
    part = {"type": "text", "text": "say 1"}
    chat = {"id": "chat", "messages": [{"id": "m", "role": "user", "parts": [part]}]}
    await person.write("send_to_chat", "puppet", action=None, json=chat)
    await person.sent_the_last_message()
    thread = {"threadId": "thread", "runId": "r", "messages": [{"id": "m", **said}]}
    await person.write("run_agent", "puppet", action=None, json=thread)
    await person.sent_the_last_message()
    call = stateless("tools/call", {"name": "puppet", "arguments": {"message": "say 1"}})
    headers = stateless_headers(call["params"], "tools/call")
    await person.write("post_message", action=None, json=call, headers=headers)
    await person.sent_the_last_message()
    for route, place, body in (("stop_chat", "held-chat", None), ("stop_thread", "held-thread", {})):
        event = {"event_type": "message.received", "agent": "puppet", "conversation_id": place}
        await person.write("post_event", action=None, json={**event, "input": {"text": "hold"}})
        await person.write(route, "puppet", place, action="run.cancel_requested", json=body)
    asked: dict[str, Any] = {"assistant_id": "puppet", "input": "say 1"}
    for kind, threads in (("stateless_run", []), ("thread_run", ["graph-thread"])):
        for verb in ("create", "stream", "wait_for"):
            await person.write(f"{verb}_{kind}", *threads, action=None, json=asked)
            await person.sent_the_last_message()
    holding = {**asked, "input": "hold"}
    made = await person.write("create_thread_run", "graph-held", action=None, json=holding)
    await person.write("cancel_thread_run", "graph-held", made["run_id"], action="run.cancel_requested")
    made = await person.write("create_stateless_run", action=None, json=holding)
    await person.write("cancel_protocol_run", made["run_id"], action="run.cancel_requested")
    await person.browser.get(f"/langgraph/runs/{made['run_id']}/wait")
    await person.write("delete_protocol_run", made["run_id"], action="data.deleted")
    made = await person.write("create_thread_run", "graph-thread", action=None, json=asked)
    await person.browser.get(f"/langgraph/threads/graph-thread/runs/{made['run_id']}/join")
    await person.write("delete_thread_run", "graph-thread", made["run_id"], action="data.deleted")
    await person.write("delete_thread", "graph-thread", action="data.deleted")
    await a2a(person)
    held = {"model": "puppet", "input": "hold", "background": True}
    made = await person.write("create_response", action=None, json=held)
    await person.sent_the_last_message()
    await person.write("cancel_response", made["id"], action="run.cancel_requested")
    made = await person.write("create_response", action=None, json={"model": "puppet", "input": "say 1"})
    await person.write("delete_response", made["id"], action="data.deleted")


async def a2a(person: Ada) -> None:
    headers = {"A2A-Version": "1.0"}
    for route in ("send_a2a_message", "stream_a2a_message"):
        sent: dict[str, Any] = {"messageId": route, "parts": [{"text": "say 1"}]}
        await person.write(route, "puppet", action=None, json={"message": sent}, headers=headers)
        await person.sent_the_last_message()
    sent = {"messageId": "held", "parts": [{"text": "hold"}]}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": sent, "configuration": {"returnImmediately": True}},
    }
    made = await person.write("call_a2a", "puppet", action=None, json=call, headers=headers)
    await person.sent_the_last_message()
    task_id = made["result"]["task"]["id"]
    place = {"url": "https://a.example"}
    await person.write("add_push_config", "puppet", task_id, action=None, json=place, headers=headers)
    await person.write("delete_push_config", "puppet", task_id, task_id, action=None, headers=headers)
    await person.write(
        "change_a2a_task", "puppet", f"{task_id}:cancel", action="run.cancel_requested", headers=headers
    )


async def agents_and_artifacts(person: Ada) -> None:
    await person.write("create_agent", action="agent.added", json=AGENT)
    await person.write("put_agent", "n", action="agent.changed", json={**AGENT, "priority": 3})
    await person.write(
        "explain_event", action=None, json={"event_type": "message.received", "input": {"text": "x"}}
    )
    await person.write("delete_agent", "n", action="agent.removed")
    base = {"kb_id": "rules"}
    await person.write("create_knowledge_base", action="knowledge_base.added", json=base)
    await person.write(
        "put_knowledge_base", "rules", action="knowledge_base.changed", json={**base, "name": "Rules"}
    )
    await person.write("put_document", "rules", "a.md", action="knowledge_document.put", content=b"Dogs.")
    await person.write("reindex_document", "rules", "a.md", action="knowledge_document.reindexed")
    await person.write("search_knowledge_base", "rules", action=None, json={"query": "dogs"})
    await person.write("delete_document", "rules", "a.md", action="knowledge_document.removed")
    await person.write("delete_knowledge_base", "rules", action="knowledge_base.removed")
    timed = {"name": "s", "every": 86_400, "agent": "puppet", "text": "remember k v"}
    await person.write("create_schedule", action="schedule.added", json=timed)
    await person.write("put_schedule", "s", action="schedule.changed", json={**timed, "grace": 5})
    await person.write("pause_schedule", "s", action="schedule.paused")
    await person.write("resume_schedule", "s", action="schedule.resumed")
    await person.write("run_schedule", "s", action=None)
    await person.sent_the_last_message()
    await person.write("delete_schedule", "s", action="schedule.removed")
    cron = {"assistant_id": "puppet", "schedule": "@daily", "input": "remember k v"}
    made = await person.write("create_cron", action="schedule.added", json=cron)
    await person.write(
        "update_cron", made["cron_id"], action="schedule.changed", json={"schedule": "@weekly"}
    )
    await person.write("delete_cron", made["cron_id"], action="schedule.removed")
    await person.write("create_thread", action=None, json={"thread_id": "of-cron", "metadata": {"a": 1}})
    await person.write("create_thread_cron", "of-cron", action="schedule.added", json=cron)
    await person.write("restart_plugin", "test%2Fpuppet", action="plugin.restarted")
    upload = await person.browser.request("POST", "/v1/artifacts", content=b"abc")
    await person.write("delete_artifact", upload.json()["artifact_id"], action="artifact.deleted")
    await person.write("create_agent", action="agent.added", json=BOUNDED)
    event = {"event_type": "message.received", "agent": "bounded", "input": {"text": "recall k"}}
    event |= {"conversation_id": "counted"}
    await person.write("post_event", action=None, json=event, params={"wait": 60})
    (account,) = (await person.browser.get("/v1/budgets?agent=bounded")).json()["items"]
    added = {"calls": 5, "comment": "for the rest of the day"}
    await person.write("top_up_budget", account["id"], action="budget.topped_up", json=added)


async def secrets_and_configuration(person: Ada, tmp_path: Path) -> None:
    (tmp_path / "master").write_text("ab" * 32)
    keys = {"keys": [f"file:{tmp_path / 'master'}"]}
    await person.write("put_entry", "master_key", "policy", action="master_key.added", json=keys)
    await person.write("set_secret", "token", action="secret.added", json={"value": "a secret"})
    await person.write("remove_secret", "token", action="secret.removed")
    model = {"id": "m", "api_key": "sk-hello-hello"}
    await person.write("add_entry", "models", action="model.added", json=model)
    place = {"kind": "models", "name": "m"}
    await person.write("move_secret", "key", action="secret.added", json=place)
    await person.write("remove_entry", "models", "m", action="model.removed")
    await person.write("apply_config", action="model.added", json={"models": [{"id": "n"}]})
    await person.write("rotate_workspace_keys", action="workspace_keys.rotated", json={})
    await person.write("fork_conversation", "c", action="conversation.forked")
    await person.write("delete_conversation", "c", action="data.deleted")
    await person.write("delete_actor", "somebody else", action="data.deleted")


async def people(person: Ada) -> None:
    key = await person.write("create_key", action="key.created", json={"name": "k", "rights": ["runs:read"]})
    await person.write("revoke_key", key["record"]["key_id"], action="key.revoked")
    invited = {"email": "bea@example.com", "role": "reader"}
    bea = (await person.write("add_member", action="member.added", json=invited))["member_id"]
    await person.write("put_member", bea, action="member.role_changed", json={"role": "owner"})
    await person.write("remove_member", bea, action="member.removed")
    mine = {"name": "mine", "rights": ["runs:read"]}
    own = await person.write("create_personal_key", action="key.created", json=mine)
    await person.write("revoke_personal_key", own["record"]["key_id"], action="key.revoked")
    moved = await person.write("enter_workspace", action="session.opened", json={"workspace_id": "default"})
    person.browser.csrf = moved["csrf_token"]
    other = await person.made.signed_in(groups=["admins"])
    await person.new_facts()
    session = (await other.get("/v1/auth/session")).json()["session_id"]
    await person.write("end_session", session, action="session.ended")
    await person.write("sign_out", action="session.ended")
