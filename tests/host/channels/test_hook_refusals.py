"""Hooks over HTTP: what is refused, how that is audited, and how much of it is taken."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.channels import request_refusals
from hostler.domain.hooks import HookMapping
from hostler_protocol.errors import StorageError
from support.hook_host import audited, events_of, hook, hooked, secrets
from support.hooked import SECRET, Sender
from support.http_host import serving

__all__ = ["secrets"]
pytestmark = pytest.mark.gate("hooks")
TEXT = HookMapping(text="body.say", conversation_id="'c-' + string(body.n)", actor_id="body.who")


async def test_a_request_that_was_listened_to_is_not_taken_under_another_id(
    tmp_path: Path, database_url: str
) -> None:
    """GitHub's id is in a header that it does not sign: whoever has seen a request can change it."""
    async with hooked(tmp_path, hook(), database=database_url) as (served, (github,)):
        request = github.request(message_id="d-1")
        assert (await github.send(request)).status_code == 202
        forged = {**request.headers, "x-github-delivery": "d-2"}
        answer = await github.client.post(github.hook.path, content=request.body, headers=forged)
        assert answer.status_code == 401, answer.text
        without = {name: value for name, value in request.headers.items() if name != "x-github-delivery"}
        answer = await github.client.post(github.hook.path, content=request.body, headers=without)
        assert answer.status_code == 401, answer.text
        assert (await github.send(request)).json()["outcome"] == "duplicate"
        assert len(await events_of(served)) == 1
        assert [fact.body["reason"] for fact in await audited(served)] == ["replayed"]


async def test_an_old_request_is_refused_and_audited(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook("stripe")) as (served, (stripe,)):
        assert (await stripe.post(at=1_600_000_000)).status_code == 401
        (fact,) = await audited(served)
        assert (fact.actor, fact.action, fact.target) == ("hook:in", "hook.refused", "in")
        assert fact.body == {"reason": "old", "count": 1, "address": "127.0.0.1"}
        assert await events_of(served) == []


async def test_an_id_with_another_body_is_answered_so_that_its_sender_stops(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook("stripe")) as (served, (stripe,)):
        first = await stripe.post({"id": "evt_1", "n": 1})
        second = await stripe.post({"id": "evt_1", "n": 2})
        assert (second.status_code, second.json()) == (
            202,
            {"event_id": first.json()["event_id"], "outcome": "conflict"},
        )
        assert len(await events_of(served)) == 1
        assert [fact.action for fact in await audited(served)] == ["hook.conflict"]


async def test_many_wrong_requests_do_not_fill_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is a fact at once; the others are counted, and one fact at the end of the window."""
    async with hooked(tmp_path, hook()) as (served, (github,)):
        wrong = Sender(github.client, github.hook, "wrong")
        statuses = [(await wrong.post()).status_code for _ in range(80)]
        assert statuses[:60] == [401] * 60
        assert 429 in statuses[60:], "one address has a bound"
        assert len(await audited(served)) == 1
        assert (await github.post()).status_code == 202, "a right request is never refused for that"
        monkeypatch.setattr(request_refusals, "WINDOW_SECONDS", 0.0)
        await served.host.hooks._refusals.flush()
        last, first = await audited(served)
        assert (first.body["count"], last.body["count"]) == (1, 79)
        counted = (await served.client.get("/v1/hooks")).json()["items"][0]["requests"]
        assert counted == {"wrong": 80, "accepted": 1}


async def test_refusals_that_were_counted_are_audited_at_the_end(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook()) as (_, (github,)):
        wrong = Sender(github.client, github.hook, "wrong")
        for _ in range(3):
            await wrong.post()
    async with serving(tmp_path / "data") as served:
        assert [fact.body["count"] for fact in await audited(served)] == [2, 1]


async def test_a_refusal_is_audited_later_if_the_database_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hooked(tmp_path, hook()) as (served, (github,)):

        def full(*_: Any, **__: Any) -> None:
            raise StorageError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(request_refusals, "_record", full)
            answer = await Sender(github.client, github.hook, "wrong").post()
        assert answer.status_code == 401
        assert await audited(served) == []
        await served.host.hooks.close()
        (fact,) = await audited(served)
        assert (fact.body["reason"], fact.body["count"]) == ("wrong", 1)


async def test_a_hook_takes_so_many_requests_and_no_more(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook(requests_per_second=0.2), hook(name="other")) as (served, (slow, other)):
        assert (await slow.post()).status_code == 202
        answer = await slow.post()
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) in range(1, 6)
        assert (await other.post()).status_code == 202
        assert len(await events_of(served)) == 2


async def test_what_is_no_request_of_a_sender_is_refused(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook(max_body_kib=1), hook("none", name="open")) as (served, (github, open_)):
        client = github.client
        assert (await client.post("/v1/hooks/nowhere", content=b"{}")).status_code == 404
        assert (await github.post({"a": "x" * 1024})).status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x" * 1000

        assert (await client.post(github.hook.path, content=chunks())).status_code == 413
        for encoding in ("gzip", "br", "zstd, gzip"):
            answer = await github.post({}, {"content-encoding": encoding})
            assert answer.status_code == 415, encoding
        assert (await github.post(b"<x/>", {"content-type": "application/xml"})).status_code == 415
        assert (await github.post(b"{", {"content-type": "application/json"})).status_code == 400
        assert (await open_.post(b"\xff", {"content-type": "text/plain"})).status_code == 400
        assert (
            await open_.post(b"a=%ff", {"content-type": "application/x-www-form-urlencoded"})
        ).status_code == 400
        assert await audited(served) == [], "the sender is right"
        assert (await github.post({}, {"x-long": "a" * 20_000})).status_code == 431
        assert (await client.put(github.hook.path, content=b"{}")).status_code == 405
        assert await events_of(served) == []


async def test_basic_credentials_name_their_user(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook("basic")) as (_, (sender,)):
        for pair in ("v:" + SECRET, "u:", "u", ":" + SECRET):
            given = {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
            answer = await sender.client.post(sender.hook.path, json={}, headers=given)
            assert answer.status_code == 401, pair
