"""The shapes that programs outside rely on, over a real socket, from a real plugin process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.http_host import PUPPET_RUNNER, Served, serving


def near(value: Any) -> Any:
    """Equal to any time."""

    class Time:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, int | float) and other > 1_600_000_000

        def __hash__(self) -> int:
            return 0

        def __repr__(self) -> str:
            return f"<a time, as {value}>"

    return Time()


ANY_TIME = near("UTC epoch seconds")


async def test_an_event_becomes_a_run(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"event_type": "message.received", "input": {"text": "say 2"}, "event_id": "e1"}
        answer = await served.client.post("/v1/events", json={**body, "conversation_id": "c"})
        assert answer.status_code == 202
        run_id = answer.json()["run"]["run_id"]
        assert answer.json() == {
            "event_id": "e1",
            "duplicate": False,
            "outcome": "started",
            "run": {"run_id": run_id, "status": "claimed"},
        }
        assert answer.headers["location"] == f"/v1/runs/{run_id}"
        again = await served.client.post(
            "/v1/events", params={"wait": 30}, json={**body, "conversation_id": "c"}
        )
        assert again.status_code == 200
        expected = {
            "run_id": run_id,
            "agent": "puppet",
            "agent_version": 1,
            "runner_id": PUPPET_RUNNER,
            "status": "completed",
            "status_code": None,
            "attempt": 1,
            "event_id": "e1",
            "conversation_id": "c",
            "parent_run_id": None,
            "forked_from": None,
            "forked_at": None,
            "retry_of": None,
            "created_at": ANY_TIME,
            "started_at": ANY_TIME,
            "finished_at": ANY_TIME,
            "deadline_at": ANY_TIME,
            "cancel_requested_at": None,
            "cancel_requested_by": None,
            "cancel_reason": None,
            "sequence": 4,
            "usage": None,
            "cost": None,
            "output": {
                "text": "done: say 2.",
                "messages": [{"role": "assistant", "content": "done: say 2.", "message_id": "m1"}],
            },
        }
        assert again.json() == expected
        assert (await served.client.get(f"/v1/runs/{run_id}")).json() == {
            **expected,
            "waiting": False,
            "waits_for": None,
            "waits": [],
        }
        listed = (await served.client.get("/v1/runs")).json()
        assert listed == {
            "items": [{**expected, "output": None, "waiting": False, "waits_for": None, "waits": []}],
            "next_cursor": None,
            "has_more": False,
        }
        third = await served.client.post("/v1/events", json={**body, "conversation_id": "c"})
        assert third.json()["duplicate"] is True
        assert third.json()["run"] == {"run_id": run_id, "status": "completed"}

    await _with(tmp_path, scenario)


async def test_the_journal_and_the_history_of_a_run(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        said = await served.say("say 2", conversation_id="a/b c", event_id="e1")
        path = f"/v1/runs/{said['run_id']}/journal"
        journal = (await served.client.get(path)).json()
        assert set(journal) == {"items", "next_cursor", "has_more"}
        items = journal["items"]
        assert [item["position"] for item in items] == list(range(1, len(items) + 1))
        results = [item for item in items if item["kind"] == "result"]
        assert [item["sequence"] for item in results] == [1, 2, 3, 4]
        assert results[0] == {
            "position": results[0]["position"],
            "kind": "result",
            "type": "message.delta",
            "at": ANY_TIME,
            "attempt": 1,
            "sequence": 1,
            "data": {"chunk": {"role": "assistant", "content": "0 "}},
        }
        assert [item["type"] for item in results] == [
            "message.delta",
            "message.delta",
            "message.completed",
            "run.completed",
        ]
        assert "sequence" not in items[0]
        paged, after = [], ""
        while True:
            page = (
                await served.client.get(path, params={"limit": 2, "after": after} if after else {"limit": 2})
            ).json()
            paged += page["items"]
            if not page["has_more"]:
                break
            after = page["next_cursor"]
        assert paged == items
        position = (await served.client.get(path, params={"after": "3"})).json()
        assert position["items"] == items[3:]

        history = (await served.client.get("/v1/conversations/a%2Fb%20c/history")).json()
        assert set(history) == {"items", "next_cursor", "prev_cursor", "has_more", "total_count", "title"}
        newest, oldest = history["items"]
        assert newest == {
            "transcript_id": newest["transcript_id"],
            "event_id": newest["event_id"],
            "run_id": newest["run_id"],
            "conversation_id": "a/b c",
            "thread_id": None,
            "role": "assistant",
            "item_type": "message",
            "content": "done: say 2.",
            "content_json": {"role": "assistant", "content": "done: say 2.", "message_id": "m1"},
            "artifact_refs": [],
            "seq": 2,
            "cursor": newest["cursor"],
            "created_at": ANY_TIME,
            "metadata": newest["metadata"],
        }
        assert (oldest["role"], oldest["content"], oldest["event_id"]) == ("user", "say 2", "e1")
        assert oldest["content_json"]["role"] == "user"
        first = (await served.client.get("/v1/conversations/a%2Fb%20c/history?limit=1")).json()
        assert first["items"] == [newest]
        assert first["has_more"] is True
        second = await served.client.get(
            "/v1/conversations/a%2Fb%20c/history", params={"before": first["next_cursor"], "limit": 1}
        )
        assert second.json()["items"] == [oldest]
        elsewhere = await served.client.get(
            "/v1/conversations/other/history", params={"before": first["next_cursor"]}
        )
        assert elsewhere.status_code == 400
        assert elsewhere.json()["code"] == "invalid_argument"
        found = (await served.client.get("/v1/conversations/a%2Fb%20c/search?q=done")).json()
        assert found == {"items": [newest], "query": "done", "total_count": 1}
        listed = (await served.client.get("/v1/conversations")).json()
        assert [item["conversation_id"] for item in listed["items"]] == ["a/b c"]

    await _with(tmp_path, scenario)


async def test_what_becomes_of_an_event(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async def post(**fields: Any) -> tuple[int, dict[str, Any]]:
            body = {"event_type": "message.received", "input": {"text": "say 0"}, **fields}
            answer = await served.client.post("/v1/events", json=body)
            return answer.status_code, answer.json()

        status, nobody = await post(event_type="group.member_joined", event_id="u")
        assert (status, nobody) == (
            202,
            {"event_id": "u", "duplicate": False, "outcome": "unrouted", "run": None},
        )
        stored = (await served.client.get("/v1/events/u")).json()
        assert (stored["outcome"], stored["run_id"]) == ("unrouted", None)
        assert stored["envelope"]["input"]["text"] == "say 0"

        status, unknown = await post(agent="nobody")
        assert (status, unknown["code"]) == (404, "not_found")
        await post(event_id="twice")
        status, conflict = await post(event_id="twice", conversation_id="another")
        assert (status, conflict["code"]) == (409, "conflict")
        await served.agent("second")
        status, both = await post(event_id="ambiguous")
        assert (status, both["code"]) == (409, "conflict")
        assert "puppet" in both["detail"]
        assert "second" in both["detail"]
        status, foreign = await post(workspace_id="another")
        assert (status, foreign["code"]) == (403, "unauthorized")
        log = (await served.client.get("/v1/events", params={"event_type": "group.member_joined"})).json()
        assert [event["event_id"] for event in log["items"]] == ["u"]

    await _with(tmp_path, scenario)


async def test_a_waiting_answer_stands_as_it_is_when_its_time_is_over(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"event_type": "message.received", "input": {"text": "hold"}}
        answer = await served.client.post("/v1/events", params={"wait": 0.05}, json=body)
        assert answer.status_code == 202
        assert answer.json()["status"] in ("claimed", "running")
        run_id = answer.json()["run_id"]
        cancelled = await served.client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})
        assert cancelled.status_code == 200
        async with served.client.stream("GET", f"/v1/runs/{run_id}/stream") as stream:
            await stream.aread()
        assert (await served.client.get(f"/v1/runs/{run_id}")).json()["status_code"] == "cancelled"
        bare = await served.client.post(f"/v1/runs/{run_id}/cancel")
        assert (bare.status_code, bare.json()["status"]) == (200, "cancelled")

    await _with(tmp_path, scenario)


async def test_lists_go_on_from_their_cursors(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for number in range(7):
            await served.say("say 0", conversation_id=f"c{number % 3}", event_id=f"e{number}")
        for path, key, whole in (
            ("/v1/runs", "run_id", 7),
            ("/v1/events", "event_id", 7),
            ("/v1/conversations", "conversation_id", 3),
            ("/v1/runs?conversation_id=c0", "run_id", 3),
            ("/v1/runs?status=completed&status=failed", "run_id", 7),
            ("/v1/runs?status=failed", "run_id", 0),
        ):
            seen: list[str] = []
            cursor: str | None = None
            while True:
                params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
                query = "&".join(f"{name}={value}" for name, value in params.items())
                answer = await served.client.get(f"{path}{'&' if '?' in path else '?'}{query}")
                assert answer.status_code == 200, answer.text
                page = answer.json()
                assert len(page["items"]) <= 2
                seen += [item[key] for item in page["items"]]
                assert page["has_more"] == (page["next_cursor"] is not None)
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            assert len(seen) == len(set(seen)) == whole, path
        first = (await served.client.get("/v1/runs?limit=2")).json()["next_cursor"]
        for wrong in ("/v1/events", "/v1/runs?agent=puppet", "/v1/keys"):
            joint = "&" if "?" in wrong else "?"
            answer = await served.client.get(f"{wrong}{joint}cursor={first}")
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
        capped = await served.client.get("/v1/runs?limit=100000")
        assert capped.status_code == 200

    await _with(tmp_path, scenario)


async def test_agents_have_versions(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        spec = {"name": "a", "runner": PUPPET_RUNNER, "scope": {"type": "conversation", "id": "only"}}
        made = await served.client.post("/v1/agents", json=spec)
        assert made.status_code == 201
        agent_id = made.json()["agent_id"]
        assert made.json()["version"] == 1
        taken = await served.client.post("/v1/agents", json=spec)
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
        same = await served.client.put("/v1/agents/a", json=made.json()["spec"])
        assert (same.json()["version"], same.json()["agent_id"]) == (1, agent_id)
        changed = await served.client.put("/v1/agents/a", json={**spec, "config": {"suffix": "?"}})
        assert (changed.json()["version"], changed.json()["agent_id"]) == (2, agent_id)
        versions = (await served.client.get("/v1/agents/a/versions")).json()["items"]
        assert [version["version"] for version in versions] == [2, 1]
        said = await served.say("say 0", agent="a")
        assert (said["agent_version"], said["output"]["text"]) == (2, "done: say 0?")
        for wrong in (
            {**spec, "filters": ["evnt.x"]},
            {**spec, "runner": "echo"},
            {**spec, "name": "b"},
            {**spec, "nmae": "a"},
            {**spec, "resource_policy": {"tool_approval": {"t": {"expires_in": 5}}}},
        ):
            answer = await served.client.put("/v1/agents/a", json=wrong)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument"), answer.text
        assert (await served.client.delete("/v1/agents/a")).status_code == 204
        assert (await served.client.delete("/v1/agents/a")).status_code == 404
        assert (await served.client.get("/v1/agents/a")).status_code == 404
        actions = [fact["action"] for fact in (await served.client.get("/v1/audit")).json()["items"]]
        assert actions[:3] == ["agent.removed", "agent.changed", "agent.added"]

    await _with(tmp_path, scenario)


async def test_a_configuration_is_shown_before_it_is_applied(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        config = (await served.client.get("/v1/config")).json()
        config["agents"].append({"name": "new", "runner": PUPPET_RUNNER})
        shown = await served.client.post("/v1/config", params={"dry_run": "true"}, json=config)
        assert shown.status_code == 200, shown.text
        assert shown.json()["applied"] is False
        assert (await served.client.get("/v1/agents/new")).status_code == 404
        applied = (await served.client.post("/v1/config", json=config)).json()
        assert [(c["kind"], c["name"]) for c in applied["changes"] if c["change"] == "added"] == [
            ("agent", "new")
        ]
        assert (await served.client.get("/v1/agents/new")).status_code == 200
        relative = await served.client.post("/v1/config", json={"plugins": ["./here"]})
        assert (relative.status_code, "relative" in relative.json()["detail"]) == (400, True)

    await _with(tmp_path, scenario)


async def test_keys_are_shown_once_and_end_at_once(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        made = await served.client.post("/v1/keys", json={"name": "ci", "rights": ["runs:read"]})
        assert made.status_code == 201
        token, record = made.json()["key"], made.json()["record"]
        async with served.as_key(token) as client:
            assert (await client.get("/v1/runs")).status_code == 200
            refused = await client.get("/v1/agents")
            assert (refused.status_code, refused.json()["code"]) == (403, "unauthorized")
            assert refused.json()["details"] == {"right": "agents:read"}
            escalated = await client.post("/v1/keys", json={"name": "x", "rights": ["admin"]})
            assert escalated.status_code == 403
            assert (await served.client.delete(f"/v1/keys/{record['key_id']}")).status_code == 204
            gone = await client.get("/v1/runs")
            assert (gone.status_code, gone.headers["www-authenticate"]) == (401, 'Bearer realm="hostler"')
        listed = (await served.client.get("/v1/keys")).json()["items"]
        assert [(key["key_id"], key["revoked_at"] is None) for key in listed] == [(record["key_id"], False)]
        assert token not in (await served.client.get("/v1/keys")).text
        admin = await served.key("default", "admin")
        async with served.as_key(admin) as client:
            for wider in (
                {"name": "x", "rights": ["installation"]},
                {"name": "x", "rights": ["admin"], "workspace_id": "other"},
                {"name": "x", "plugin": "acme/echo"},
            ):
                assert (await client.post("/v1/keys", json=wider)).status_code == 403
            assert (await client.get("/metrics")).status_code == 403
            assert (await client.get("/v1/config")).status_code == 403

    await _with(tmp_path, scenario)


async def test_health_readiness_and_metrics(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async with served.as_key(None) as client:
            assert (await client.get("/healthz")).json()["status"] == "ok"
            assert (await client.get("/readyz")).json()["status"] == "ready"
            assert (await client.get("/metrics")).status_code == 401
            served.host.state = "draining"
            try:
                waiting = await client.get("/readyz")
            finally:
                served.host.state = "ready"
            assert waiting.status_code == 503
            assert waiting.json()["detail"] == "not ready: the host is draining"
        await served.say("say 1")
        text = (await served.client.get("/metrics")).text
        for line in (
            'hostler_http_requests_total{route="post_event",status="200"} 1.0',
            'hostler_plugin_ready{plugin="test/puppet"} 1.0',
            "hostler_stream_readers 0.0",
            'hostler_events_total{duplicate="false",outcome="started"} 1.0',
            'hostler_runs_open{status="running"} 0.0',
        ):
            assert line in text.splitlines()

    await _with(tmp_path, scenario)


async def test_a_conversation_and_a_person_are_deleted_with_a_receipt(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for conversation in ("kept", "gone"):
            await served.say("remember k v", conversation_id=conversation, actor={"actor_id": "ada"})
        state = (await served.client.get("/v1/conversations/gone/state")).json()
        assert [(entry["scope"], entry["key"], entry["value"]) for entry in state["items"]] == [
            ("conversation", "k", "v")
        ]
        running = await served.say("hold", conversation_id="gone", wait=None)
        busy = await served.client.delete("/v1/conversations/gone")
        assert (busy.status_code, busy.json()["code"]) == (409, "conflict")
        await served.client.post(f"/v1/runs/{running['run']['run_id']}/cancel")
        async with served.client.stream("GET", f"/v1/runs/{running['run']['run_id']}/stream") as ended:
            await ended.aread()
        receipt = await served.client.delete("/v1/conversations/gone")
        assert receipt.status_code == 200, receipt.text
        assert receipt.json()["workspace_id"] == "default"
        for path in ("history", "state"):
            assert (await served.client.get(f"/v1/conversations/gone/{path}")).json()["items"] == []
            assert (await served.client.get(f"/v1/conversations/kept/{path}")).json()["items"]
        assert (await served.client.delete("/v1/conversations/gone")).status_code == 404
        person = await served.client.delete("/v1/actors/ada")
        assert person.status_code == 200, person.text
        assert (await served.client.get("/v1/conversations/kept/history")).json()["items"] == []
        actions = [fact["action"] for fact in (await served.client.get("/v1/audit")).json()["items"]]
        assert len([action for action in actions if "delet" in action]) == 2

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
