"""Lists of runs by filters with their totals, journals in brief, and what a fork or replay may change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.host.data_directory import own_database
from support.agent_host import answering, ask
from support.http_host import Served, serving
from support.many_runs import insert_journal, insert_runs, run_row


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def found(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_list_goes_on_from_the_cursors_of_its_totals(tmp_path: Path, served: Served) -> None:
    insert_runs(own_database(tmp_path / "data"), 12_000)
    client = served.client
    parts = [await found(client, "/v1/runs/totals")]
    while parts[-1]["has_more"]:
        parts.append(await found(client, "/v1/runs/totals", cursor=parts[-1]["next_cursor"]))
    assert [part["runs"] for part in parts] == [5000, 5000, 2000]
    assert sum(part["by_status"]["failed"] for part in parts) == 120
    assert sum(part["timed"] for part in parts) == 12_000
    assert sum(part["seconds"] for part in parts) == 6_000
    middle = await found(client, "/v1/runs", cursor=parts[0]["next_cursor"], skip=2345, limit=2)
    assert [run["conversation_id"] for run in middle["items"]] == ["conversation 7345", "conversation 7346"]
    after = await found(client, "/v1/runs", cursor=middle["next_cursor"], limit=1)
    assert after["items"][0]["conversation_id"] == "conversation 7347"
    for query, told in (
        ({"skip": 1, "min_cost": 1}, "leave the others out"),
        ({"skip": 5001}, "skip"),
        ({"min_cost": -1}, "min_cost"),
        ({"text": ""}, "text"),
        ({"dead": "true", "tool": "x"}, "dead combines"),
    ):
        answer = await client.get("/v1/runs", params=query)
        assert answer.status_code == 400, (query, answer.text)
        assert told in answer.text, answer.text
    narrower = await client.get("/v1/runs", params={"agent": "x", "cursor": parts[0]["next_cursor"]})
    assert narrower.status_code == 400, "a cursor is one list's"


async def test_a_journal_in_brief_is_small_and_searched_whole(tmp_path: Path, served: Served) -> None:
    database = own_database(tmp_path / "data")
    insert_runs(database, 1)
    run_id = run_row(0)[1]
    insert_journal(database, run_id, 3_000)
    at = f"/v1/runs/{run_id}/journal"
    page = await found(served.client, at, brief="true", limit=500)
    assert len(page["items"]) == 500
    assert len(json.dumps(page)) < 600_000
    call = page["items"][1]["data"]
    assert call["params"]["messages"][0]["content"].startswith("prompt 1 xxx")
    assert call["params"]["messages"][0]["content"].endswith("x…")
    assert call["reply"]["usage"] == {"input_tokens": 9}
    whole = await found(served.client, at, after=1, limit=1)
    assert whole["items"][0]["data"]["params"]["messages"][0]["content"].endswith("xx")
    assert len((await found(served.client, at, limit=500))["items"]) == 100
    hits: list[int] = []
    looks, query = 0, dict[str, str]()
    while True:
        looks += 1
        page = await found(served.client, at, contains="PROMPT 2500 X", brief="true", **query)
        hits += [entry["position"] for entry in page["items"]]
        if not page["has_more"]:
            break
        query = {"after": page["next_cursor"]}
    assert hits == [2501]
    assert looks == 3, "a search looks at a thousand entries at a time"


async def test_a_fork_may_change_the_prompt_but_no_secret(tmp_path: Path) -> None:
    async with answering(tmp_path / "data", prompt="Be brief.") as (served, model):
        model.always("Hello.")
        await ask(served, "hi")
        run = (await found(served.client, "/v1/runs"))["items"][0]
        at = f"/v1/runs/{run['run_id']}"
        calls = [
            one for one in (await found(served.client, f"{at}/journal"))["items"] if one["kind"] == "call"
        ]
        body = {"position": calls[-1]["position"], "config": {"prompt": "Be long."}}
        async with served.as_key(await served.key("default", "runs:read", "runs:write")) as member:
            assert (await member.post(f"{at}/fork", json=body)).status_code == 403
            assert (await member.post(f"{at}/fork", json={"position": 1})).status_code == 201
            assert (await member.post(f"{at}/replay", json={})).json()["identical"]
            changed = await member.post(f"{at}/replay", json={"config": body["config"]})
            assert (changed.status_code, "agents:write" in changed.text) == (403, True), changed.text
        async with served.as_key(await served.key("default", "runs:read")) as reader:
            assert (await reader.post(f"{at}/replay", json={})).status_code == 403
        for wrong, told in (
            ({"at": 1, "position": 1}, "leave one out"),
            ({"config": {"prompt": "env:HOME", "other": "env:HOME"}}, "cannot change secrets"),
        ):
            answer = await served.client.post(f"{at}/fork", json=wrong)
            assert answer.status_code == 400, answer.text
            assert told in answer.text
        made = (await served.client.post(f"{at}/fork", json=body)).json()
        await served.host.runs.wait("default", made["run_id"], 30)
        assert model.requests[-1].json["messages"][0]["content"] == "Be long."
        # what it was made with goes on in forks and replays of it
        assert (await served.client.post(f"/v1/runs/{made['run_id']}/replay", json={})).json()["identical"]
        again = (await served.client.post(f"/v1/runs/{made['run_id']}/fork", json={"at": 0})).json()
        await served.host.runs.wait("default", again["run_id"], 30)
        assert model.requests[-1].json["messages"][0]["content"] == "Be long."
        assert made["agent_version"] == 1
        assert (await found(served.client, "/v1/agents/chat"))["spec"]["config"]["prompt"] == "Be brief."
