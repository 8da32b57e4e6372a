"""Sent twice, done once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.http_host import ADMIN_KEY, PUPPET_RUNNER, Served, serving
from support.loopback import NO_CERTIFICATES


async def test_the_same_event_500_times_at_once_is_one_event_and_one_run(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"event_type": "message.received", "input": {"text": "say 1"}, "event_id": "e"}
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        clients = [
            httpx.AsyncClient(base_url=served.url, headers=headers, timeout=60, verify=NO_CERTIFICATES)
            for _ in range(10)
        ]
        answers = await asyncio.gather(
            *(clients[number % 10].post("/v1/events", json=body) for number in range(500))
        )
        for client in clients:
            await client.aclose()
        assert {answer.status_code for answer in answers} == {202}
        found = [answer.json() for answer in answers]
        assert Counter(accepted["duplicate"] for accepted in found) == {False: 1, True: 499}
        assert len({accepted["run"]["run_id"] for accepted in found}) == 1
        assert {accepted["event_id"] for accepted in found} == {"e"}
        await served.say("say 1", event_id="e")
        assert len((await served.client.get("/v1/events")).json()["items"]) == 1
        runs = (await served.client.get("/v1/runs")).json()["items"]
        assert [run["run_id"] for run in runs] == [found[0]["run"]["run_id"]]

    await _with(tmp_path, scenario)


async def test_an_idempotency_key_stands_for_an_event_id(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        body = {"event_type": "message.received", "input": {"text": "say 0"}}
        headers = {"idempotency-key": "order 7"}
        first = (await served.client.post("/v1/events", json=body, headers=headers)).json()
        second = (await served.client.post("/v1/events", json=body, headers=headers)).json()
        assert (first["duplicate"], second["duplicate"]) == (False, True)
        assert first["run"]["run_id"] == second["run"]["run_id"]
        other = {**body, "conversation_id": "c"}
        conflict = await served.client.post("/v1/events", json=other, headers=headers)
        assert (conflict.status_code, conflict.json()["code"]) == (409, "conflict")
        async with served.as_key(await served.key()) as client:  # another key's key is another key
            theirs = (await client.post("/v1/events", json=other, headers=headers)).json()
        assert theirs["duplicate"] is False

    await _with(tmp_path, scenario)


@pytest.mark.gate("api-keys")
async def test_a_repeated_post_is_answered_and_not_done_again(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        headers = {"idempotency-key": "k"}
        body = {"name": "ci", "rights": ["runs:read"]}
        first = await served.client.post("/v1/keys", json=body, headers=headers)
        second = await served.client.post("/v1/keys", json=body, headers=headers)
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json()["record"] == second.json()["record"]
        assert second.headers["idempotent-replay"] == "true"
        assert second.json()["key"] is None  # a secret is shown once, and kept nowhere
        assert len((await served.client.get("/v1/keys")).json()["items"]) == 1
        other = await served.client.post("/v1/keys", json={**body, "name": "x"}, headers=headers)
        assert (other.status_code, other.json()["code"]) == (422, "conflict")
        agent = {"name": "a", "runner": PUPPET_RUNNER}
        elsewhere = await served.client.post("/v1/agents", json=agent, headers=headers)
        assert elsewhere.status_code == 422

        upload = {"idempotency-key": "u"}
        one = await served.client.post("/v1/artifacts", content=b"abc", headers=upload)
        two = await served.client.post("/v1/artifacts", content=b"abc", headers=upload)
        assert one.json() == two.json()
        three = await served.client.post("/v1/artifacts", content=b"abd", headers=upload)
        assert three.status_code == 422

    await _with(tmp_path, scenario)


async def test_a_refused_post_may_be_corrected_under_the_same_key(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        headers = {"idempotency-key": "k"}
        wrong = {"name": "a", "runner": "nonsense"}
        for _ in range(2):
            answer = await served.client.post("/v1/agents", json=wrong, headers=headers)
            assert answer.status_code == 400
        right = {"name": "a", "runner": PUPPET_RUNNER}
        answer = await served.client.post("/v1/agents", json=right, headers=headers)
        assert answer.status_code == 201
        for bad in ("", "x" * 256):
            answer = await served.client.post("/v1/agents", json=right, headers={"idempotency-key": bad})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")

    await _with(tmp_path, scenario)


async def test_while_the_first_is_under_way_the_second_has_to_wait(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        headers = {"idempotency-key": "k"}
        body = {"name": "a", "runner": PUPPET_RUNNER}
        answers = await asyncio.gather(
            *(served.client.post("/v1/agents", json=body, headers=headers) for _ in range(20))
        )
        codes = Counter(answer.status_code for answer in answers)
        assert codes[201] >= 1
        assert set(codes) <= {201, 409}
        assert len({answer.text for answer in answers if answer.status_code == 201}) == 1
        assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 409)
        again = await served.client.post("/v1/agents", json=body, headers=headers)
        assert again.status_code == 201

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
