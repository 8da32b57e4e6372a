"""`hostler events`: what came in, and sending it again."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from support.command_line import ECHO, CommandLine
from support.loopback import NO_CERTIFICATES

AGENT = '{name: %s, runner: "plugin:acme/echo/default", event_types: [%s]}'


@pytest.fixture
def config(hostler: CommandLine) -> None:
    agents = ", ".join((AGENT % ("clerk", "message.received"), AGENT % ("late", "order.paid")))
    file = hostler.cwd / "hostler.yaml"
    file.write_text(f"plugins: [{{path: {ECHO}, level: trusted}}]\nagents: [{agents}]\n")
    assert hostler("apply", file).status == 0


def event(event_id: str, event_type: str, text: str, **more: Any) -> dict[str, Any]:
    return {"event_id": event_id, "event_type": event_type, "input": {"text": text}, **more}


@pytest.mark.usefixtures("config")
def test_what_nobody_took_is_listed_and_sent_again_to_an_agent(hostler: CommandLine) -> None:
    with hostler.serving() as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, verify=NO_CERTIFICATES) as client:
            tool = {"name": "look", "parameters": {"type": "object"}}
            given = [
                event("o1", "order.made", "first", data={"total": 7}, conversation_id="shop"),
                event("o2", "order.made", "second"),
                event("m1", "message.received", "hello"),
            ]
            given[0]["input"]["tools"] = [tool]
            for one in given:
                assert client.post("/v1/events", json=one).status_code == 202
        listed = hostler("events", "list", "--json").json
        assert [one["event_id"] for one in listed] == ["m1", "o2", "o1"]
        unrouted = hostler("events", "list", "--outcome", "unrouted").out
        assert [line.split("\t")[0] for line in unrouted.splitlines()] == ["o2", "o1"]
        assert "nearest: " in unrouted
        assert "order.made is none of its event types" in unrouted

        planned = hostler("events", "replay", "--outcome", "unrouted", "--dry-run", "--json").json
        assert [one["replay_of"] for one in planned] == ["o1", "o2"], "the oldest goes first"
        assert len(hostler("events", "list", "--json").json) == 3, "nothing was sent"
        nobody = hostler("events", "replay", "o1")
        assert nobody.status == 1, "still nobody takes it"
        assert "order.made is none of its event types" in nobody.out
        done = hostler("events", "replay", "o1", "o2", "--agent", "late", "--json").json
        assert [(one["replay_of"], one["outcome"], one["routing"]["agent"]) for one in done] == [
            ("o1", "started", "late"),
            ("o2", "started", "late"),
        ]
        made = hostler("events", "show", done[0]["event_id"], "--json").json
        assert made["envelope"]["metadata"] == {"replay_of": "o1"}
        assert (made["envelope"]["data"], made["conversation_id"]) == ({"total": 7}, "shop")
        assert made["envelope"]["input"]["tools"] == [], "nobody is there who carries them out"
        assert made["requester"] == "admin"
        of_admin = hostler("events", "list", "--from", "admin", "--json").json
        assert made["event_id"] in {one["event_id"] for one in of_admin}
        assert hostler("events", "list", "--from", "hook:none", "--json").json == []
        noted = hostler("audit", "list", "--action", "event.replayed", "--json").json
        assert sorted(one["target"] for one in noted) == ["o1", "o1", "o2"]
        old = hostler("events", "show", "o1", "--json").json
        assert (old["outcome"], old["run_id"]) == ("unrouted", None), "the old one stays as it was"
        again = hostler("events", "replay", made["event_id"], "--json").json
        assert again[0]["event_id"] not in {made["event_id"], "o1"}, "each time it is a new one"
        assert again[0]["routing"]["agent"] == "late", "as the event names it"
        shown = hostler("events", "show", made["event_id"]).out
        assert "replay of       o1" in shown

        for wrong, status, said in (
            (("replay", "o9"), 1, "there is no event 'o9'; `hostler events list` lists what exists"),
            (("replay", "o1", "--agent", "lat"), 2, "there is no agent 'lat'; did you mean 'late'?"),
            (("replay",), 2, "name events by their ids, or by --outcome, --type or --conversation"),
            (("replay", "o1", "--outcome", "unrouted"), 2, "name events by their ids, or by --outcome"),
            (("list", "--outcome", "unroutedd"), 2, "unrouted"),
            (("show", "o9"), 1, "there is no event 'o9'"),
        ):
            refused = hostler("events", *wrong)
            assert (refused.status, said in refused.error) == (status, True), (wrong, refused.err)
    stopped = hostler("events", "replay", "o1")
    assert (stopped.status, "server" in stopped.error) == (2, True)
    assert len(hostler("events", "list", "--json").json) == 7


@pytest.mark.usefixtures("config")
def test_one_idempotency_key_is_one_replay_and_content_that_was_deleted_is_none(hostler: CommandLine) -> None:
    with hostler.serving() as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, verify=NO_CERTIFICATES) as client:
            given = event("m1", "message.received", "hi", conversation_id="talk")
            assert client.post("/v1/events?wait=60", json=given).status_code == 200
            once = {"idempotency-key": "k"}
            answers = [client.post("/v1/events/m1/replay", json={}, headers=once).json() for _ in range(2)]
            assert answers[0]["event_id"] == answers[1]["event_id"]
            key = {"name": "writer", "rights": ["events:write"]}
            writer = client.post("/v1/keys", json=key).json()["key"]
            refused = client.post(
                "/v1/events/m1/replay", json={}, headers={"authorization": f"Bearer {writer}"}
            )
            assert (refused.status_code, "events:read" in refused.text) == (403, True)
            for answer in answers[:1]:
                client.get(f"/v1/runs/{answer['run']['run_id']}?wait=60")
            assert client.delete("/v1/conversations/talk").status_code == 200
            gone = client.post("/v1/events/m1/replay", json={})
            assert (gone.status_code, "was deleted" in gone.text) == (409, True), gone.text
