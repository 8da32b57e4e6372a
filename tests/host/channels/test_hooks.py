"""Hooks over HTTP, by a whole host: what is taken once, refused and audited, and what an event has of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.hooks import HmacScheme, Hook, HookMapping
from hostler.host.config import ConfigFile
from support.hook_host import audited, event_of, events_of, hook, hooked, runs_of, secrets
from support.hooked import SECRET, STANDARD_SECRET, form
from support.http_host import OTHER, WORKSPACE

__all__ = ["secrets"]
pytestmark = pytest.mark.gate("hooks")
TEXT = HookMapping(text="body.say", conversation_id="'c-' + string(body.n)", actor_id="body.who")


async def test_a_request_becomes_an_event_and_its_run_before_it_is_answered(
    tmp_path: Path, database_url: str
) -> None:
    mapping = HookMapping(
        event_type="'issues.' + body.action",
        text="'say 1'",
        conversation_id="body.repository.full_name",
        thread_id="string(body.issue.number)",
        actor_id="string(body.sender.id)",
        actor_name="body.sender.login",
    )
    async with hooked(tmp_path, hook(map=mapping), database=database_url) as (served, (github,)):
        answer = await github.post(message_id="d-1")
        assert answer.json()["outcome"] == "accepted"
        event = await event_of(served, answer)
        envelope = event["envelope"]
        assert (event["event_type"], event["source"], event["requester"]) == (
            "issues.opened",
            "webhook",
            "hook:in",
        )
        assert (event["conversation_id"], event["thread_id"]) == ("octocat/hello-world", "1")
        assert (event["actor_id"], event["actor_name"]) == ("1", "octocat")
        assert (envelope["source_event_id"], envelope["source_event_type"]) == ("d-1", "issues")
        assert envelope["input"]["text"] == "say 1"
        assert envelope["data"]["issue"]["title"] == "A sample"
        assert envelope["metadata"] == {"hook": {"name": "in"}}
        run = await served.host.runs.wait(WORKSPACE, event["run_id"], 30)
        assert run.status == "completed"
        (run_,) = await runs_of(served)
        assert run_["run_id"] == event["run_id"]
        await served.host.apply(ConfigFile(), actor="test", prune=False)
        assert (await github.post(message_id="d-1")).json()["outcome"] == "duplicate"


async def test_the_same_message_again_starts_nothing_also_at_once(tmp_path: Path, database_url: str) -> None:
    """Twenty deliveries of one message at the same time, some signed anew as a sender's retry is: one run."""
    async with hooked(tmp_path, hook("stripe"), database=database_url) as (served, (stripe,)):
        requests = [stripe.request(message_id="evt_1") for _ in range(20)]
        answers = await asyncio.gather(*(stripe.send(request) for request in requests))
        assert {answer.status_code for answer in answers} == {202}
        outcomes = sorted(answer.json()["outcome"] for answer in answers)
        assert outcomes == ["accepted"] + ["duplicate"] * 19
        assert len({answer.json()["event_id"] for answer in answers}) == 1
        assert len(await events_of(served)) == len(await runs_of(served)) == 1
        assert await audited(served) == []


@pytest.mark.parametrize(
    "verify", ["standard", "github", "gitlab", "stripe", "shopify", "hmac", "basic", "bearer", "none"]
)
async def test_every_verifier_takes_what_its_sender_signs(tmp_path: Path, verify: Any) -> None:
    async with hooked(tmp_path, hook(verify)) as (served, (sender,)):
        first, again = sender.request(message_id="m-1"), sender.request(message_id="m-1")
        assert (await event_of(served, await sender.send(first)))["outcome"] == "started"
        assert (await sender.send(again)).json()["outcome"] == "duplicate"
        assert (await sender.post({"another": 1}, message_id="m-2")).json()["outcome"] == "accepted"
        assert len(await events_of(served)) == 2
        sender.secret = STANDARD_SECRET[:-4] + "AAAA" if verify == "standard" else "not " + SECRET
        wrong = await sender.post()
        if verify == "none":
            assert wrong.status_code == 202
        else:
            assert wrong.status_code == 401, wrong.text
            assert [fact.body["reason"] for fact in await audited(served)] == ["wrong"]
            assert len(await events_of(served)) == 2, "nothing is stored but the refusal"


async def test_slack_is_answered_as_it_asks(tmp_path: Path) -> None:
    mapping = HookMapping(
        event_type="body.event.type == 'message' ? 'message.received' : 'webhook.received'",
        text="has(body.event) ? body.event.text : body.text",
    )
    async with hooked(tmp_path, hook("slack", map=mapping)) as (served, (slack,)):
        challenge = {"type": "url_verification", "token": "Jhj5", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY"}
        answer = await slack.post(challenge)
        assert (answer.status_code, answer.json()) == (200, {"challenge": challenge["challenge"]})
        assert await events_of(served) == []
        unsigned = await slack.client.post(slack.hook.path, json=challenge)
        assert unsigned.status_code == 401, "a challenge is answered to Slack alone"
        said = await slack.post(message_id="Ev1")
        assert (said.status_code, said.text) == (200, "")
        body, headers = form(
            token="secret-token", command="/ask", text="say 2", trigger_id="t.1", user_id="U1"
        )
        assert (await slack.post(body, headers)).status_code == 200
        body, headers = form(payload='{"type":"block_actions","token":"secret-token","trigger_id":"t.2"}')
        assert (await slack.post(body, headers)).status_code == 200
        button, command, message = await events_of(served)
        assert message["event_type"] == "message.received"
        assert message["input_summary"] == "A sample"
        whole = [
            (await served.client.get(f"/v1/events/{one['event_id']}")).json() for one in (button, command)
        ]
        assert [one["envelope"]["data"].get("token") for one in whole] == [None, None]
        assert [one["envelope"]["source_event_id"] for one in whole] == ["t.2", "t.1"]
        assert whole[0]["envelope"]["data"] == {"type": "block_actions", "trigger_id": "t.2"}
        assert set(whole[0]["envelope"]["metadata"]["hook"]["unmapped"]) == {"event_type", "text"}


async def test_twilio_is_answered_with_nothing_to_run(tmp_path: Path) -> None:
    mapping = HookMapping(event_type="'message.received'", text="body.Body", conversation_id="body.From")
    public = "https://host.example"
    async with hooked(tmp_path, hook("twilio", map=mapping), public_url=public) as (served, (twilio,)):
        twilio.hook = Hook(name="in", verify="twilio", url=f"{public}/v1/hooks/in")
        answer = await twilio.post(message_id="SM1", query="a=b%20c")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/xml"
        assert "<Response/>" in answer.text
        (event,) = await events_of(served)
        assert (event["input_summary"], event["conversation_id"]) == ("A sample", "+15005550006")
        assert (await twilio.post(message_id="SM1", query="a=b%20c")).status_code == 200
        assert len(await events_of(served)) == 1
        twilio.hook = Hook(name="in", verify="twilio", url="https://elsewhere.example/v1/hooks/in")
        assert (await twilio.post()).status_code == 401


async def test_a_service_may_ask_first(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook(challenge_token="env:OLD_SECRET"), hook(name="plain")) as (
        served,
        (meta, plain),
    ):
        asked = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": "the one before"}
        answer = await meta.client.get(meta.hook.path, params=asked)
        assert (answer.status_code, answer.text) == (200, "1158201444")
        for wrong in ({"hub.verify_token": "x"}, {"hub.verify_token": ""}, {"hub.verify_token": "ünï"}):
            assert (await meta.client.get(meta.hook.path, params={**asked, **wrong})).status_code == 401
        assert (
            await meta.client.get(meta.hook.path, params={**asked, "hub.challenge": "a\nb"})
        ).status_code == 400
        assert (await plain.client.get(plain.hook.path, params=asked)).status_code == 404
        assert {fact.body["reason"] for fact in await audited(served)} == {"wrong", "missing"}


async def test_events_go_to_the_workspace_of_their_hook(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook(workspace=OTHER, name="theirs"), hook(name="ours")) as (served, senders):
        await served.agent("puppet", OTHER)
        for sender in senders:
            assert (await sender.post(message_id="same")).status_code == 202
        async with served.as_key(await served.key(OTHER)) as theirs:
            (event,) = (await theirs.get("/v1/events")).json()["items"]
            assert (event["workspace_id"], event["requester"]) == (OTHER, "hook:theirs")
        (event,) = await events_of(served)
        assert event["requester"] == "hook:ours"


async def test_a_changed_mapping_makes_no_second_event_of_a_message(tmp_path: Path) -> None:
    async with hooked(tmp_path, hook("stripe")) as (served, (stripe,)):
        body = {"id": "evt_1", "say": "say 1"}
        assert (await stripe.post(body)).json()["outcome"] == "accepted"
        changed = hook("stripe", map=HookMapping(text="body.say"))
        await served.host.apply(ConfigFile(hooks=[changed]), actor="test")
        assert (await stripe.post(body)).json()["outcome"] == "duplicate"
        assert len(await events_of(served)) == 1


async def test_no_secret_of_a_sender_is_in_the_event(tmp_path: Path) -> None:
    """An expression cannot reach a header that shows who the sender is."""
    everything = HookMapping(data="{'headers': headers, 'query': query}")
    scheme = HmacScheme(header="X-Mine", timestamp_header="X-Time")
    async with hooked(tmp_path, hook("hmac", hmac=scheme, map=everything)) as (served, (sender,)):
        sent = {
            "authorization": "Bearer canary",
            "cookie": "canary",
            "x-api-key": "canary",
            "x-gitlab-token": "canary",
            "x-other-signature": "canary",
            "x-plain": "kept",
        }
        event = await event_of(served, await sender.post({}, sent, query="a=1&a=2&b="))
        data = event["envelope"]["data"]
        assert "canary" not in str(event)
        assert "x-mine" not in data["headers"]
        assert data["headers"]["x-plain"] == "kept"
        assert data["query"] == {"a": ["1", "2"], "b": ""}


async def test_a_field_that_a_mapping_does_not_give_is_left_out_and_said(tmp_path: Path) -> None:
    mapping = HookMapping(
        event_type="'Not A Type'",
        id="body.none.such",
        text="body.list",
        actor_name="body.name",
        conversation_id="body.n",
        data="body.n",
    )
    async with hooked(tmp_path, hook(map=mapping)) as (served, (github,)):
        body = {"n": 7, "list": [1], "name": "x" * 2000}
        answer = await github.post(body, message_id="d-9")
        event = await event_of(served, answer)
        assert (event["event_type"], event["conversation_id"], event["actor_name"]) == (
            "webhook.received",
            "7",
            None,
        )
        assert event["envelope"]["source_event_id"] == "d-9", "the sender's, for want of the mapped one"
        unmapped = event["envelope"]["metadata"]["hook"]["unmapped"]
        assert set(unmapped) == {"event_type", "id", "text", "actor_name", "data"}
        assert (await github.post(body, message_id="d-9")).json()["outcome"] == "duplicate"
        sample = {"headers": {"X-GitHub-Delivery": "d-10"}, "body": body}
        preview = (await served.client.post("/v1/hooks/in/preview", json=sample)).json()
        assert {one["field"] for one in preview["unmapped"]} == set(unmapped)
        assert preview["envelope"]["source_event_id"] == "d-10"
        assert preview["routing"]["agent"] == "puppet"
        assert len(await events_of(served)) == 1, "nothing is stored by it"


async def test_an_expression_that_takes_too_long_is_tried_again_by_the_sender(tmp_path: Path) -> None:
    """It is ended, and the host goes on: the sender is asked to send again, and nothing is stored."""
    hungry = HookMapping(text="string(body.w.map(x, body.t + x).size())")
    async with hooked(tmp_path, hook(map=hungry), hook(name="other")) as (served, (github, other)):
        answer = await github.post({"t": "a" * 100_000, "w": ["b"] * 20_000})
        assert answer.status_code == 503, answer.text
        assert "retry-after" in answer.headers
        assert (await other.post()).status_code == 202
        assert len(await events_of(served)) == 1


async def test_without_an_id_a_body_is_one_message_or_each_is(tmp_path: Path) -> None:
    timed = HmacScheme(header="x-s", timestamp_header="x-t")
    async with hooked(
        tmp_path,
        hook("bearer", name="once"),
        hook("bearer", name="new", same_body="new"),
        hook("hmac", name="signed", hmac=timed, same_body="new"),
    ) as (served, (once, new, timed_sender)):
        outcomes = [[(await one.post({})).json()["outcome"] for _ in range(2)] for one in (once, new)]
        assert outcomes == [["accepted", "duplicate"], ["accepted", "accepted"]]
        request = timed_sender.request({})
        answers = [(await timed_sender.send(request)).json() for _ in range(2)]
        assert [answer["outcome"] for answer in answers] == ["accepted", "duplicate"], "it was signed once"
        assert answers[0]["event_id"] == answers[1]["event_id"]
        assert len(await events_of(served)) == 4


async def test_a_request_that_was_noted_before_its_event_was_stored_is_taken_when_it_comes_again(
    tmp_path: Path, database_url: str
) -> None:
    """Signed with its time and without an id, it is known by its signature alone, not by an event."""
    timed = hook(
        "hmac", hmac=HmacScheme(header="x-s", timestamp_header="x-t"), same_body="new", agent="later"
    )
    async with hooked(tmp_path, timed, database=database_url) as (served, (sender,)):
        request = sender.request({})
        assert (await sender.send(request)).status_code == 503
        await served.agent("later")
        answers = [(await sender.send(request)).json() for _ in range(2)]
        assert [answer["outcome"] for answer in answers] == ["accepted", "duplicate"]
        (event,) = await events_of(served)
        assert {answer["event_id"] for answer in answers} == {event["event_id"]}
        assert len(await runs_of(served)) == 1


async def test_a_host_that_ends_between_the_note_and_the_event_loses_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = hook("hmac", hmac=HmacScheme(header="x-s", timestamp_header="x-t"), same_body="new")
    async with hooked(tmp_path, timed) as (served, (sender,)):
        begun = asyncio.Event()

        async def never(*_: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(served.host.hooks, "_accept", never)
        request = sender.request({})
        sending = asyncio.create_task(sender.send(request))
        await begun.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert await events_of(served) == []
    async with hooked(tmp_path, timed) as (served, (sender,)):
        assert (await sender.send(request)).json()["outcome"] == "accepted"
        assert len(await events_of(served)) == len(await runs_of(served)) == 1
