"""The examples of docs/hooks.md, applied and sent what their makers send."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from hostler.domain.hooks import Hook
from hostler.host.config import ConfigFile
from support.hooked import SECRET, Sender
from support.http_host import serving

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"
GITHUB = {
    "action": "opened",
    "issue": {"number": 1347, "title": "Found a bug", "body": "I'm having a problem with this."},
    "repository": {"id": 1296269, "full_name": "octocat/Hello-World"},
    "sender": {"login": "octocat", "id": 1},
}
STRIPE = {
    "id": "evt_1",
    "object": "event",
    "type": "customer.created",
    "livemode": False,
    "data": {"object": {"id": "cus_123", "object": "customer"}},
}
SLACK = {
    "token": "XXYYZZ",
    "team_id": "T123",
    "type": "event_callback",
    "event_id": "Ev123",
    "event": {"type": "message", "channel": "C123", "user": "U123", "text": "say 1", "ts": "1.2"},
}


def entries() -> list[Hook]:
    """Every hook of the page."""
    text = PAGE.read_text("utf-8")
    blocks = [
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]
    return [msgspec.convert(entry, Hook) for block in blocks for entry in block["hooks"]]


def hook_of(name: str) -> Hook:
    (found,) = [entry for entry in entries() if entry.name == name]
    return found


async def became(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: Any, **how: Any) -> Any:
    """The event that a request becomes, by the page's entry."""
    hook = hook_of(name)
    for reference in hook.secrets:
        monkeypatch.setenv(reference.removeprefix("env:"), SECRET)
    async with serving(tmp_path / "data") as served, served.as_key(None) as client:
        await served.agent("echo")
        await served.host.apply(ConfigFile(hooks=[hook]), actor="test")
        assert (await Sender(client, hook).post(body, **how)).status_code in (200, 202)
        (event,) = (await served.client.get("/v1/events")).json()["items"]
        run = await served.host.runs.wait("default", event["run_id"], 30)
        assert run.status == "completed"
        whole: httpx.Response = await served.client.get(f"/v1/events/{event['event_id']}")
        assert "unmapped" not in whole.json()["envelope"]["metadata"]["hook"]
        return whole.json()


def test_every_entry_of_the_page_can_be_applied() -> None:
    assert {entry.name for entry in entries()} >= {"code", "shop", "issues", "payments", "slack"}


async def test_an_issue_of_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = await became(tmp_path, monkeypatch, "issues", GITHUB, headers={"x-github-event": "issues"})
    assert (event["event_type"], event["conversation_id"]) == ("github.issues", "octocat/Hello-World#1347")
    assert (event["actor_id"], event["actor_name"]) == ("1", "octocat")
    assert event["envelope"]["input"]["text"] == "Found a bug\nI'm having a problem with this."
    assert event["envelope"]["data"]["action"] == "opened"


async def test_a_customer_of_stripe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = await became(tmp_path, monkeypatch, "payments", STRIPE)
    assert (event["event_type"], event["conversation_id"]) == ("stripe.customer.created", "customer-cus_123")
    assert event["envelope"]["source_event_id"] == "evt_1"
    assert event["envelope"]["data"] == {"object": {"id": "cus_123", "object": "customer"}, "livemode": False}


async def test_a_message_of_slack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = await became(tmp_path, monkeypatch, "slack", SLACK)
    assert (event["event_type"], event["conversation_id"]) == ("message.received", "C123")
    assert (event["actor_id"], event["envelope"]["input"]["text"]) == ("U123", "say 1")
    assert event["envelope"]["source_event_id"] == "Ev123"
    assert "XXYYZZ" not in str(event)


async def test_the_first_entry_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SECRET", SECRET)
    hook = msgspec.structs.replace(hook_of("code"), agent="echo")
    async with serving(tmp_path / "data") as served, served.as_key(None) as client:
        await served.agent("echo")
        await served.host.apply(ConfigFile(hooks=[hook]), actor="test")
        assert (await Sender(client, hook).post(GITHUB)).status_code == 202
        pushed = {"ref": "refs/heads/main", "repository": {"full_name": "octocat/Hello-World"}}
        assert (await Sender(client, hook).post(pushed, {"x-github-event": "push"})).status_code == 202
        push, issue = (await served.client.get("/v1/events")).json()["items"]
        assert (issue["event_type"], push["event_type"]) == ("github.issues", "github.push")
        envelope = (await served.client.get(f"/v1/events/{push['event_id']}")).json()["envelope"]
        assert set(envelope["metadata"]["hook"]["unmapped"]) == {"text", "actor_name"}
