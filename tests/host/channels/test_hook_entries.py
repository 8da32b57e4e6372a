"""Hooks over HTTP: entries whose secrets change, that verify nothing, lack an agent, or are removed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hostler.domain.hooks import HookMapping
from hostler.host.config import ConfigFile
from support.hook_host import audited, events_of, hook, hooked, secrets
from support.hooked import Sender

__all__ = ["secrets"]
pytestmark = pytest.mark.gate("hooks")
TEXT = HookMapping(text="body.say", conversation_id="'c-' + string(body.n)", actor_id="body.who")


async def test_a_secret_is_changed_without_a_gap(tmp_path: Path) -> None:
    both = hook(secrets=["env:HOOK_SECRET", "env:OLD_SECRET"])
    async with hooked(tmp_path, both) as (served, (new,)):
        old = Sender(new.client, new.hook, "the one before")
        assert [(await sender.post()).status_code for sender in (new, old)] == [202, 202]
        await served.host.apply(ConfigFile(hooks=[hook()]), actor="test")
        assert [(await sender.post()).status_code for sender in (new, old)] == [202, 401]


async def test_a_secret_that_cannot_be_read_is_a_problem_and_not_the_senders_fault(tmp_path: Path) -> None:
    entries = [
        hook(secrets=["env:UNSET_SECRET"]),
        hook(name="empty", secrets=["env:EMPTY_SECRET"]),
        hook("standard", name="no-key", secrets=["env:OLD_SECRET"]),
        hook(name="half", secrets=["env:HOOK_SECRET", "env:UNSET_SECRET"]),
    ]
    async with hooked(tmp_path, *entries) as (served, senders):
        statuses = [(await sender.post()).status_code for sender in senders]
        assert statuses == [503, 503, 503, 202]
        problems = (await served.client.get("/v1/problems")).json()["items"]
        named = {one["name"]: one["problem"] for one in problems if one["kind"] == "hook"}
        assert set(named) == {"in", "empty", "no-key", "half"}
        assert "UNSET_SECRET" in named["in"]
        assert await audited(served) == []


async def test_a_hook_that_verifies_nothing_is_said_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with hooked(tmp_path, hook("none", name="open")) as (served, _):
        assert [
            record.getMessage() for record in caplog.records if "hook open: anyone" in record.getMessage()
        ]
        diff = await served.host.apply(ConfigFile(hooks=[hook("none", name="open")]), actor="t", dry_run=True)
        for problems in (diff.problems, await served.host.problems()):
            (problem,) = [one for one in problems if one.kind == "hook"]
            assert (problem.severity, problem.place) == ("warning", "verify")
            assert "anyone who knows the address" in problem.problem
        findings = (await served.client.get("/v1/doctor")).json()
        assert "anyone who knows the address" in str(findings)


async def test_an_agent_that_is_not_there_loses_no_event(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook(agent="later")) as (served, (github,)):
        request = github.request(message_id="d-1")
        assert (await github.send(request)).status_code == 503
        assert await events_of(served) == []
        await served.agent("later")
        assert (await github.send(request)).json()["outcome"] == "accepted"
        assert len(await events_of(served)) == 1


async def test_an_event_that_two_agents_would_take_is_not_sent_for_ever(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook(agent=None)) as (served, (github,)):
        for name in ("one", "two"):
            await served.agent(name, event_types=["webhook.received"])
        assert (await github.post()).json()["outcome"] == "conflict"
        (event,) = await events_of(served)
        assert event["run_id"] is None


async def test_a_removed_hook_is_not_there(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook()) as (served, (github,)):
        assert (await github.post()).status_code == 202
        assert (await served.client.delete("/v1/config/hooks/in")).status_code == 200
        assert (await github.post()).status_code == 404
        assert (await served.client.get("/v1/hooks")).json()["items"] == []
