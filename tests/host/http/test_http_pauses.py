"""Pauses over HTTP and on the command line: who sees them, how they are decided, how that is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.events import Caller
from hostler.domain.tool_pins import approved_tool
from hostler.http import openapi
from hostler.http.app import ENDPOINTS
from hostler.pauses import similar_approvals
from hostler.storage.port import Tx
from hostler.storage.stores import approval_rules, runs
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.pausing import FormField, InteractionAction
from support.command_line import CommandLine, Ran
from support.http_host import Served, serving
from support.json_schema import faults
from support.pauses import PIN, WORKSPACE, call, open_pause, open_run, rule

pytestmark = pytest.mark.gate("approvals")

RITA, FINN, EVE = "rita", "finn", "eve"
"""Who asked; who has the role finance; who has a key and nothing to do with it."""
DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi.document(ENDPOINTS, "1")))
FORM = [
    FormField(name="size", type="select", options=["s", "xl"], required=True),
    FormField(name="note", type="text"),
]


async def with_host(tmp_path: Path, scenario: Callable[[Served], Awaitable[None]]) -> None:
    async with serving(tmp_path / "data", agent=False, workspace=WORKSPACE) as served:
        await scenario(served)


async def keys_of(served: Served) -> dict[str, str]:
    rights = ("pauses:read", "pauses:write")
    return {
        RITA: await served.key(WORKSPACE, *rights, subject=RITA),
        FINN: await served.key(WORKSPACE, *rights, subject=FINN, roles=["finance"]),
        EVE: await served.key(WORKSPACE, *rights, subject=EVE),
        "foreign": await served.key("another", *rights, subject=RITA, roles=["admin"]),
    }


def check(answer: Any, path: str, method: str = "get") -> None:
    """Whether an answer is as the OpenAPI document says."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    schema = responses[str(answer.status_code)]["content"]["application/json"]["schema"]
    assert faults(answer.json(), schema, DOCUMENT) == []


async def opened(served: Served, *calls: Any, run_id: str = "r1", pause_id: str = "p1") -> dict[str, Any]:
    def work(tx: Tx) -> None:
        open_run(tx, run_id)
        open_pause(tx, *calls, run_id=run_id, pause_id=pause_id)

    await served.host.db.write(work)
    found: dict[str, Any] = (await served.client.get(f"/v1/pauses/{pause_id}")).json()
    return found


def action(pause: dict[str, Any], number: int = 0, kind: str = "approve", **more: Any) -> dict[str, Any]:
    one = pause["calls"][number]
    if kind in ("approve", "deny"):
        more.setdefault("args_hash", one["args_hash"])
    return {"revision": pause["revision"], "actions": [{"call_id": one["call_id"], "type": kind, **more}]}


async def refused(
    served: Served, key: str, path: str, body: Any, status: int, reason: str | None
) -> dict[str, Any]:
    async with served.as_key(key) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    if reason is not None:
        assert problem["details"]["reason"] == reason
        assert problem["type"] == f"urn:hostler:problem:{reason}"
    return problem


async def test_a_pause_is_seen_by_those_it_concerns_and_by_nobody_else(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        pause = await opened(served, call(rule=rule("role:finance", separation=True)))
        assert pause["run_id"] == "r1"
        assert pause["calls"][0]["args"] == {"item": "k1", "seats": 1}
        for who, sees, may in ((RITA, True, False), (FINN, True, True), (EVE, False, False)):
            async with served.as_key(keys[who]) as client:
                found = await client.get("/v1/pauses/p1")
                listed = (await client.get("/v1/pauses", params={"conversation_id": "c1"})).json()["items"]
                told = (await client.get("/v1/inbox")).json()["items"]
            assert found.status_code == (200 if sees else 404)
            assert [one["id"] for one in listed] == (["p1"] if sees else [])
            assert [one["event"] for one in told] == (["pause.opened"] if sees else [])
            if sees:
                check(found, "/v1/pauses/{pause_id}")
                assert found.json()["calls"][0]["may_decide"] is may
                assert told[0]["waiting"] is may
        async with served.as_key(keys["foreign"]) as client:
            assert (await client.get("/v1/pauses/p1")).status_code == 404
            assert (await client.get("/v1/pauses")).json()["items"] == []
        path = "/v1/pauses/p1/actions"
        await refused(served, keys[RITA], path, action(pause), 403, "not_approver")
        for who in (EVE, "foreign"):
            await refused(served, keys[who], path, action(pause), 404, None)
            for rest in ("/cancel", "/calls/k1/resolve"):
                body = {"outcome": "happened"} if rest != "/cancel" else {}
                await refused(served, keys[who], f"/v1/pauses/p1{rest}", body, 404, None)
        only_reads = await served.key(WORKSPACE, "pauses:read", subject=FINN, roles=["finance"])
        await refused(served, only_reads, path, action(pause), 403, None)
        nothing = await served.key(WORKSPACE, "runs:read", subject=FINN, roles=["finance"])
        async with served.as_key(nothing) as client:
            assert (await client.get("/v1/pauses")).status_code == 403

    await with_host(tmp_path, scenario)


async def test_decisions_are_taken_once_and_refused_in_words_that_say_why(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        two = await opened(served, call("k1"), call("k2", "question", fields=FORM))
        path = "/v1/pauses/p1/actions"
        async with served.as_key(keys[RITA]) as client:
            first = await client.post(path, json=action(two, comment="fine"))
            assert (first.status_code, first.json()["remaining"]) == (202, 1)
            check(first, "/v1/pauses/{pause_id}/actions", "post")
            assert first.headers["location"] == "/v1/pauses/p1"
            assert first.json()["events"] == "/v1/runs/r1/stream"
            again = await client.post(path, json=action(two, comment="fine"))
            assert (again.status_code, again.json()) == (202, first.json())
        other = await refused(served, keys[RITA], path, action(two, kind="deny"), 409, "already_decided")
        assert other["details"]["decision"] == "approved"
        assert other["details"]["decided_by"] == RITA
        unknown = {"revision": 1, "actions": [{"call_id": "nothing", "type": "answer"}]}
        await refused(served, keys[RITA], path, unknown, 422, "unknown_call")
        await refused(served, keys[RITA], path, action(two, 1, "result", result=1), 422, "wrong_kind")
        wrong = action(two, 1, "answer", values={"size": "m"})
        problem = await refused(served, keys[RITA], path, wrong, 422, "schema")
        assert "size" in problem["detail"]
        stale = action(two, 1, "answer", values={"size": "s"}) | {"revision": 7}
        await refused(served, keys[RITA], path, stale, 409, "stale_view")
        await refused(served, keys[RITA], path, {"revision": 1, "actions": [], "no": 1}, 400, None)
        async with served.as_key(keys[RITA]) as client:
            last = await client.post(path, json=action(two, 1, "answer", values={"size": "xl"}))
            assert (last.status_code, last.json()["remaining"], last.json()["status"]) == (202, 0, "ready")
            shown = (await client.get("/v1/pauses/p1")).json()
            assert [one["decision"] for one in shown["calls"]] == ["approved", "answered"]
            assert shown["calls"][0]["comment"] == "fine"
            assert shown["calls"][1]["values"]["size"] == "xl"
            told = (await client.get("/v1/inbox")).json()["items"]
            assert [one["event"] for one in told] == ["pause.settled", "pause.opened"]

    await with_host(tmp_path, scenario)


async def test_other_arguments_than_those_shown_are_not_approved(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        pause = await opened(served, call())
        stale = action(pause, args_hash="0" * 64)
        await refused(served, keys[RITA], "/v1/pauses/p1/actions", stale, 409, "stale_view")
        shown = (await served.client.get("/v1/pauses/p1")).json()
        assert shown["calls"][0]["decision"] == "undecided"

    await with_host(tmp_path, scenario)


@pytest.mark.parametrize("kind", ["approve", "deny"])
async def test_a_decision_without_the_digest_takes_a_right_of_its_own(tmp_path: Path, kind: str) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        pause = await opened(served, call(editable=True))
        path = "/v1/pauses/p1/actions"
        bodies = [action(pause, kind=kind, args_hash=None)]
        if kind == "approve":
            bodies.append(action(pause, kind=kind, args_hash=None, edited_args={"item": "k2", "seats": 9}))
        for body in bodies:
            problem = await refused(served, keys[RITA], path, body, 403, "args_hash_required")
            assert problem["details"]["right"] == "pauses:decide_blind"
            assert problem["details"]["call_id"] == "k1"
            assert "args_hash" in problem["detail"]
        shown = (await served.client.get("/v1/pauses/p1")).json()
        assert (shown["calls"][0]["decision"], shown["calls"][0]["votes"]) == ("undecided", [])

        alone = await served.key(WORKSPACE, "pauses:decide_blind", subject=RITA)
        await refused(served, alone, path, bodies[0], 403, None)  # it decides nothing by itself
        blind = await served.key(WORKSPACE, "pauses:write", "pauses:decide_blind", subject=RITA)
        async with served.as_key(blind) as client:
            first = await client.post(path, json=bodies[0])
            assert first.status_code == 202, first.text
        await refused(served, keys[RITA], path, bodies[0], 403, "args_hash_required")
        async with served.as_key(keys[RITA]) as client:
            again = await client.post(path, json=action(pause, kind=kind))
            assert (again.status_code, again.json()) == (202, first.json())

    await with_host(tmp_path, scenario)


async def test_an_administrator_may_decide_without_the_digest(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        pause = await opened(served, call())
        admin = await served.key(WORKSPACE, "admin", subject="root", roles=["admin"])
        async with served.as_key(admin) as client:
            answer = await client.post("/v1/pauses/p1/actions", json=action(pause, args_hash=None))
            assert answer.status_code == 202, answer.text

    await with_host(tmp_path, scenario)


async def test_answers_and_results_of_clients_need_no_digest(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        pause = await opened(served, call("k1", "question", fields=FORM), call("k2", "client_tool"))
        async with served.as_key(keys[RITA]) as client:
            for body in (action(pause, 0, "answer", values={"size": "s"}), action(pause, 1, "result")):
                answer = await client.post("/v1/pauses/p1/actions", json=body)
                assert answer.status_code == 202, answer.text

    await with_host(tmp_path, scenario)


async def test_an_approval_of_similar_calls_is_seen_and_revoked_by_those_it_concerns(
    tmp_path: Path, shell: Callable[..., Awaitable[Ran]]
) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        pause = await opened(served, call("k1", rule=rule("role:finance")))
        similar = {"uses": 3, "minutes": 5, "arguments": ["seats"]}
        async with served.as_key(keys[FINN]) as client:
            answer = await client.post("/v1/pauses/p1/actions", json=action(pause, similar=similar))
            assert answer.status_code == 202, answer.text
        for who, sees in ((RITA, 1), (FINN, 1), (EVE, 0), ("foreign", 0)):
            async with served.as_key(keys[who]) as client:
                listed = await client.get("/v1/approval-rules")
            check(listed, "/v1/approval-rules")
            assert len(listed.json()["items"]) == sees, who
        (made,) = (await served.client.get("/v1/approval-rules?limit=1")).json()["items"]
        assert 0 < made.pop("expires_at") - made.pop("created_at") <= 5 * 60
        path = f"/v1/approval-rules/{made.pop('rule_id')}"
        assert made == {
            "tool": "shop.book",
            "arguments": ["seats"],
            "agent": "shop",
            "conversation_id": "c1",
            "run_id": "r1",
            "requester": RITA,
            "pause_id": "p1",
            "approved_by": FINN,
            "approved_by_name": None,
            "uses_left": 3,
            "lapsed": False,
        }
        rule_id = path.rpartition("/")[2]
        listed_there = (await shell(served, keys[FINN], "similar")).out
        assert all(said in listed_there for said in (rule_id, "shop.book", "seats", FINN)), listed_there
        assert (await shell(served, keys[EVE], "revoke", rule_id)).status == 1
        only_reads = await served.key(WORKSPACE, "pauses:read", subject=FINN, roles=["finance"])
        for key, status in ((keys[EVE], 404), (keys["foreign"], 404), (only_reads, 403), (keys[RITA], 204)):
            async with served.as_key(key) as client:
                assert (await client.delete(path)).status_code == status
        async with served.as_key(keys[FINN]) as client:
            assert (await client.delete(path)).status_code == 204
            assert (await client.get("/v1/approval-rules")).json()["items"] == []
        assert (await shell(served, keys[FINN], "revoke", rule_id)).status == 0, "it is revoked already"
        assert "no approvals of similar calls" in (await shell(served, keys[FINN], "similar")).err
        facts = (await served.client.get("/v1/audit?action=approval_rule")).json()["items"]
        assert [(one["actor"], one["action"]) for one in facts] == [
            (RITA, "approval_rule.revoked"),
            (FINN, "approval_rule.created"),
        ]

    await with_host(tmp_path, scenario)


async def test_an_approval_ahead_whose_approver_may_not_any_more_says_so(
    tmp_path: Path, shell: Callable[..., Awaitable[Ran]]
) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        pause = await opened(served, call(rule=rule("role:finance")))
        wanted = {"name": "f", "subject": FINN, "roles": ["finance"], "rights": ["pauses:write"]}
        made = await served.client.post("/v1/keys", json=wanted)
        assert made.status_code == 201, made.text
        async with served.as_key(made.json()["key"]) as client:
            answer = await client.post("/v1/pauses/p1/actions", json=action(pause, similar={"uses": 3}))
            assert answer.status_code == 202, answer.text
        key_id = made.json()["record"]["key_id"]
        for lapsed in (False, True):
            (listed,) = (await served.client.get("/v1/approval-rules")).json()["items"]
            assert (listed["uses_left"], listed["lapsed"]) == (3, lapsed)
            table = (await shell(served, keys[FINN], "similar")).out
            assert ("no: whoever approved may no longer" in table) == lapsed, table
            if not lapsed:
                assert (await served.client.delete(f"/v1/keys/{key_id}")).status_code == 204

    await with_host(tmp_path, scenario)


async def test_an_approval_ahead_is_found_behind_any_number_of_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similar_approvals, "MAX_PAGES_LOOKED_AT", 1)

    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        await opened(served, call())

        def approve_ahead(tx: Tx) -> None:
            for subject in (*["boss"] * MAX_PAGE_ITEMS, EVE, EVE):
                approval_rules.create(
                    tx,
                    runs.get(tx, WORKSPACE, "r1"),
                    Caller(workspace_id=WORKSPACE, subject=subject, key_id="k"),
                    tool_name="shop.book",
                    tool=approved_tool(PIN, None),
                    effective={},
                    arguments=None,
                    rule=rule("role:finance"),
                    pause_id="p1",
                    call_id="k1",
                    uses=1,
                    minutes=60,
                )

        await served.host.db.write(approve_ahead)
        for who, size, pages in ((EVE, 1, [0, 1, 1]), (EVE, 2, [0, 2]), (FINN, 100, [100, 2])):
            found, query = [], f"limit={size}"
            async with served.as_key(keys[who]) as client:
                while query:
                    page = (await client.get(f"/v1/approval-rules?{query}")).json()
                    found.append(len(page["items"]))
                    query = page["next_cursor"] and f"limit={size}&cursor={page['next_cursor']}"
            assert found == pages, who

    await with_host(tmp_path, scenario)


async def test_an_idempotency_key_belongs_to_its_caller_and_pause(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        await opened(served, call(rule=rule("*", needed=2)))
        pause = await opened(served, call(rule=rule("*", needed=2)), run_id="r2", pause_id="p2")
        header = {"idempotency-key": "k" * 255}
        async with served.as_key(keys[RITA]) as client:
            first = await client.post("/v1/pauses/p2/actions", json=action(pause), headers=header)
            second = await client.post("/v1/pauses/p2/actions", json=action(pause), headers=header)
            assert first.status_code == second.status_code == 202
            assert first.json() == second.json()
            other = await client.post(
                "/v1/pauses/p2/actions", json=action(pause, kind="deny"), headers=header
            )
            assert other.status_code == 422, other.text
            elsewhere = await client.post("/v1/pauses/p1/actions", json=action(pause), headers=header)
            assert elsewhere.status_code == 202, elsewhere.text
            for wrong in ("", "k" * 256):
                bad = {"idempotency-key": wrong}
                assert (
                    await client.post("/v1/pauses/p2/actions", json=action(pause), headers=bad)
                ).status_code in (400, 422)
        async with served.as_key(keys[FINN]) as client:
            theirs = await client.post("/v1/pauses/p2/actions", json=action(pause), headers=header)
            assert (theirs.status_code, theirs.json()["status"]) == (202, "ready")

    await with_host(tmp_path, scenario)


async def test_older_clients_decide_by_conversation(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        await opened(
            served,
            call("k1", tool_call_id="call_0"),
            call("k2", "client_tool", tool_call_id="call_1"),
            call("k3", tool_call_id="call_2"),
        )
        path = "/v1/pauses/actions"
        await refused(
            served,
            keys[RITA],
            path,
            {"conversation_id": "c1", "tool_actions": [{"call_id": "no", "decision": "approved"}]},
            422,
            "unknown_call",
        )
        await refused(
            served,
            keys[EVE],
            path,
            {"conversation_id": "c1", "tool_actions": [{"call_id": "k1", "decision": "approved"}]},
            404,
            None,
        )
        async with served.as_key(keys[RITA]) as client:
            shown = {one["call_id"]: one for one in (await client.get("/v1/pauses/p1")).json()["calls"]}
        seen = {name: one["args_hash"] for name, one in shown.items()}
        deny: dict[str, Any] = {"call_id": "k1", "decision": "denied", "comment": "no"}
        interrupt: dict[str, Any] = {"interruptId": "k3", "status": "resolved", "payload": {"approved": True}}
        for name, one in (("tool_actions", deny), ("resume", interrupt)):
            body = {"conversation_id": "c1", name: [one]}
            await refused(served, keys[RITA], path, body, 403, "args_hash_required")
        interrupt["payload"]["argsHash"] = seen["k3"]
        async with served.as_key(keys[RITA]) as client:
            result = {"role": "tool", "tool_call_id": "call_1", "content": '{"a": 1}'}
            for name, one, remaining in (
                ("tool_actions", {**deny, "args_hash": seen["k1"]}, 2),
                ("messages", result, 1),
                ("resume", interrupt, 0),
            ):
                answer = await client.post(path, json={"conversation_id": "c1", name: [one]})
                assert answer.status_code == 202, answer.text
                assert answer.json()["remaining"] == remaining
            shown = (await client.get("/v1/pauses/p1")).json()
        assert [one["decision"] for one in shown["calls"]] == ["denied", "answered", "approved"]
        assert shown["calls"][1]["result"] == {"a": 1}

    await with_host(tmp_path, scenario)


async def test_a_pause_can_be_cancelled_and_a_call_in_doubt_resolved(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        await opened(served, call("k1", "in_doubt", effect_key="e1"))
        async with served.as_key(keys[RITA]) as client:
            path = "/v1/pauses/p1/calls/k1/resolve"
            answer = await client.post(path, json={"outcome": "happened", "result": {"booked": 1}})
            assert answer.status_code == 200, answer.text
            assert answer.json()["status"] == "ready"
            assert answer.json()["calls"][0]["result"] == {"booked": 1}
            check(answer, "/v1/pauses/{pause_id}/calls/{call_id}/resolve", "post")
        await opened(served, call(), run_id="r2", pause_id="p2")
        async with served.as_key(keys[RITA]) as client:
            answer = await client.post("/v1/pauses/p2/cancel", json={"reason": "not needed"})
            assert answer.json()["status"] == "cancelled"
        pause = (await served.client.get("/v1/pauses/p2")).json()
        await refused(served, keys[RITA], "/v1/pauses/p2/actions", action(pause, kind="deny"), 409, None)

    await with_host(tmp_path, scenario)


async def test_an_older_client_with_the_right_decides_without_digest(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await opened(served, call("k1"), call("k2"))
        blind = await served.key(WORKSPACE, "pauses:write", "pauses:decide_blind", subject=RITA)
        async with served.as_key(blind) as client:
            bodies: list[dict[str, Any]] = [
                {"tool_actions": [{"call_id": "k1", "decision": "approved"}]},
                {"resume": [{"interruptId": "k2", "status": "cancelled"}]},
            ]
            for body in bodies:
                answer = await client.post("/v1/pauses/actions", json={"conversation_id": "c1", **body})
                assert answer.status_code == 202, answer.text
            calls = (await served.client.get("/v1/pauses/p1")).json()["calls"]
        assert [one["decision"] for one in calls] == ["approved", "denied"]

    await with_host(tmp_path, scenario)


async def test_lists_are_pages(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        for number in range(5):
            await opened(served, call(), run_id=f"r{number}", pause_id=f"p{number}")
        for path, name in (("/v1/pauses", "id"), ("/v1/inbox", "pause_id")):
            found: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = (await served.client.get(path, params={"limit": 2, **cursor})).json()
                assert len(page["items"]) <= 2
                found += [one[name] for one in page["items"]]
                if not page["has_more"]:
                    break
                cursor = {"cursor": page["next_cursor"]}
            assert sorted(found) == [f"p{number}" for number in range(5)]
        only = (await served.client.get("/v1/pauses", params={"run_id": "r3"})).json()["items"]
        assert [one["id"] for one in only] == ["p3"]
        assert (await served.client.get("/v1/pauses", params={"status": "resumed"})).json()["items"] == []
        wrong = await served.client.get("/v1/pauses", params={"status": "paused"})
        assert wrong.status_code == 400

    await with_host(tmp_path, scenario)


# -- the command line -----------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Awaitable[Ran]]:
    line = CommandLine(tmp_path / "none", tmp_path)

    async def command(served: Served, key: str, *arguments: str, stdin: str = "") -> Ran:
        env = {"HOSTLER_URL": served.url, "HOSTLER_KEY": key}
        return await asyncio.to_thread(lambda: line("pauses", *arguments, stdin=stdin, env=env))

    return command


async def test_pauses_are_listed_shown_and_decided_from_the_shell(
    tmp_path: Path, shell: Callable[..., Awaitable[Ran]]
) -> None:
    async def scenario(served: Served) -> None:
        keys = await keys_of(served)
        spoof = {"item": "k1 \u202e\x1b[2J", "seats": 1}
        await opened(
            served,
            call("k1", arguments=spoof, editable=True, locked=["item"]),
            call("k2", "question", fields=FORM, title="How big?"),
            call("k3", "client_tool"),
            call("k4", "question", actions=[InteractionAction(name="go", label="Go on")]),
        )
        rita = keys[RITA]
        listed = await shell(served, rita, "list")
        assert listed.status == 0, listed.err
        assert "approval shop.book" in listed.out
        assert RITA in listed.out
        shown = await shell(served, rita, "show", "p1")
        assert "\x1b" not in shown.out
        assert "\u202e" not in shown.out
        assert "k1 \\u202e\\u001b[2J" in shown.out, "nothing in what is approved can hide itself"
        whole = json.loads((await shell(served, rita, "show", "p1", "--json")).out)
        assert f"digest    {whole['calls'][0]['args_hash']}" in shown.out
        assert "may be edited, except item" in shown.out
        assert (await shell(served, keys[EVE], "show", "p1")).status == 1

        edited = json.dumps({**spoof, "seats": 2})
        wrong = await shell(served, rita, "approve", "p1", "--digest", "0" * 64)
        assert wrong.status == 1
        assert wrong.error
        done = await shell(served, rita, "approve", "p1", "--edit", edited, "-m", "one more seat")
        assert (done.status, "3 more to decide" in done.err) == (0, True), done.err
        unnamed = await shell(served, rita, "answer", "p1", "--set", "size=s")
        assert (unnamed.status, "2 calls wait" in unnamed.error) == (2, True)
        misfit = await shell(served, rita, "answer", "p1", "2", "--set", "size=m")
        assert (misfit.status, "size" in misfit.error) == (1, True)
        answered = await shell(served, rita, "answer", "p1", "2", "--set", "size=s", "--json")
        assert answered.json["remaining"] == 2
        assert (await shell(served, rita, "answer", "p1", "4", "--action", "go")).status == 0
        last = await shell(served, rita, "result", "p1", stdin='{"ok": true}')
        assert "the run continues: hostler runs tail r1" in last.err
        found = json.loads((await shell(served, rita, "show", "p1", "--json")).out)
        assert found["calls"][0]["args"]["seats"] == 2
        assert found["calls"][0]["proposed_args"]["seats"] == 1
        assert found["calls"][2]["result"] == {"ok": True}
        assert found["calls"][3]["action"] == "go"
        assert "settled" in (await shell(served, rita, "inbox")).out

        await opened(served, call(), run_id="r2", pause_id="p2")
        assert (await shell(served, rita, "deny", "p2", "-m", "no")).status == 0
        late = await shell(served, rita, "approve", "p2", "1")
        assert (late.status, "denied" in late.error) == (1, True)
        await opened(served, call("d", "in_doubt", effect_key="e"), run_id="r3", pause_id="p3")
        assert (await shell(served, rita, "resolve", "p3", "perhaps")).status == 2
        resolved = await shell(served, rita, "resolve", "p3", "not-happened", "--json")
        assert resolved.status == 0, resolved.err
        await opened(served, call(), run_id="r4", pause_id="p4")
        assert "cancelled" in (await shell(served, rita, "cancel", "p4")).err
        assert (await shell(served, rita, "list", "--status", "cancelled")).out.startswith("p4")

    await with_host(tmp_path, scenario)
