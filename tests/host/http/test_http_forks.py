"""Titles, forks and search of conversations, and lists of files, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.port import Tx
from hostler.storage.stores import conversation_metadata
from support.http_host import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def test_the_titles_of_a_list_are_read_at_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        await served.say("say 1", conversation_id=f"c{number}")
        if number % 2:
            body = {"title": f"title {number}"}
            await served.client.put(f"/v1/conversations/c{number}/title", json=body)
    reads: list[int] = []
    titles = conversation_metadata.titles

    def counted(tx: Tx, ws: str, conversation_ids: Collection[str]) -> dict[str, str]:
        reads.append(len(conversation_ids))
        return titles(tx, ws, conversation_ids)

    monkeypatch.setattr(conversation_metadata, "titles", counted)
    monkeypatch.delattr(conversation_metadata, "title")
    listed = (await served.client.get("/v1/conversations?limit=5")).json()["items"]
    assert {one["conversation_id"]: one["title"] for one in listed} == {
        "c5": "title 5",
        "c4": None,
        "c3": "title 3",
        "c2": None,
        "c1": "title 1",
    }
    assert reads == [5]


async def history(served: Served, conversation: str) -> list[dict[str, Any]]:
    found = (await served.client.get(f"/v1/conversations/{conversation}/history?limit=100")).json()
    items: list[dict[str, Any]] = found["items"][::-1]
    return items


def texts(items: list[dict[str, Any]]) -> list[str]:
    return [item["content"] for item in items]


async def fork(served: Served, conversation: str, **body: Any) -> dict[str, Any]:
    answer = await served.client.post(f"/v1/conversations/{conversation}/fork", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_title_is_kept_beside_other_metadata_and_taken_away(served: Served) -> None:
    await served.say("say 1", conversation_id="c")
    metadata = {"metadata": {"topic": "t"}}
    await served.client.post("/v1/conversations/c", json=metadata)
    named = await served.client.put("/v1/conversations/c/title", json={"title": "  A name \u202e "})
    assert named.json() == {"conversation_id": "c", "title": "A name \u202e"}
    (listed,) = (await served.client.get("/v1/conversations")).json()["items"]
    assert listed["title"] == "A name \u202e"
    assert (await served.client.get("/v1/conversations/c/history")).json()["title"] == "A name \u202e"
    kept = (await served.client.get("/v1/conversations/c")).json()["metadata"]
    assert kept == {"title": "A name \u202e", "topic": "t"}
    gone = await served.client.put("/v1/conversations/c/title", json={"title": None})
    assert gone.json()["title"] is None
    assert (await served.client.get("/v1/conversations/c")).json()["metadata"] == {"topic": "t"}
    long = await served.client.put("/v1/conversations/c/title", json={"title": "x" * 201})
    assert long.status_code == 400
    assert (await served.client.put("/v1/conversations/none/title", json={"title": "x"})).status_code == 404


async def test_a_fork_has_what_was_said_up_to_a_message_and_goes_its_own_way(served: Served) -> None:
    for number in range(3):
        await served.say(f"say {number}", conversation_id="c")
    original = await history(served, "c")
    made = await fork(served, "c", at=original[3]["cursor"])
    assert (made["messages"], made["omitted"], made["forked_from"]) == (4, False, "c")
    own = made["conversation_id"]
    assert texts(await history(served, own)) == texts(original)[:4]
    before = await fork(served, "c", at=original[2]["cursor"], including=False, title="Again")
    assert texts(await history(served, before["conversation_id"])) == texts(original)[:2]
    assert before["title"] == "Again"
    await served.say("say 9", conversation_id=own)
    assert texts(await history(served, own))[4:] == ["say 9", "done: say 9."]
    assert texts(await history(served, "c")) == texts(original)
    assert (await served.client.delete("/v1/conversations/c")).status_code == 200
    assert len(await history(served, own)) == 6
    wrong = await served.client.post(f"/v1/conversations/{own}/fork", json={"at": original[0]["cursor"]})
    assert wrong.status_code == 400
    assert (await served.client.post("/v1/conversations/c/fork", json={})).status_code == 404


async def test_whoever_may_not_read_or_write_messages_forks_no_conversation(served: Served) -> None:
    """What was said comes before the messages of another conversation: in both interfaces, with one rule."""
    await served.say("say 1", conversation_id="c")
    rights = {"conversations:write", "conversations:read", "events:write"}
    paths = ("/v1/conversations/c/fork", "/langgraph/threads/c/copy")
    for lacking in sorted(rights):
        async with served.as_key(await served.key("default", *(rights - {lacking}))) as client:
            for path in paths:
                refused = await client.post(path, json={})
                assert refused.status_code == 403, (path, lacking, refused.text)
                assert lacking in refused.text
    listed = (await served.client.get("/v1/conversations")).json()["items"]
    assert [one["conversation_id"] for one in listed] == ["c"]
    async with served.as_key(await served.key("default", *rights)) as client:
        for path in paths:
            made = await client.post(path, json={})
            assert made.status_code in (200, 201), made.text


async def test_a_fork_has_files_of_its_own_and_goes_with_the_person(served: Served) -> None:
    ada = {"actor": {"actor_type": "user", "actor_id": "ada"}}
    file = {"type": "file_base64", "file_base64": "Ynl0ZXM=", "file_name": "a.txt"}
    body = {"event_type": "message.received", "conversation_id": "c", **ada}
    body |= {"input": {"contents": [{"type": "text", "text": "hello"}, file]}}
    await served.client.post("/v1/events?wait=30", json=body)
    await served.say("make of the run", conversation_id="c", actor={"actor_type": "user", "actor_id": "bob"})
    made = await fork(served, "c")
    twice = await fork(served, made["conversation_id"])  # a copy of a copy
    seen: set[str] = set()
    for one in ({"conversation_id": "c"}, made, twice):
        items = await history(served, one["conversation_id"])
        (ref,) = items[0]["artifact_refs"]
        (part,) = [part for part in items[0]["content_json"]["content"] if part["type"] == "artifact"]
        assert part["artifact_id"] == ref["artifact_id"] not in seen
        seen.add(ref["artifact_id"])
        content = await served.client.get(f"/v1/artifacts/{ref['artifact_id']}/content")
        assert content.content == b"bytes"
        query = {"conversation_id": one["conversation_id"]}
        listed = (await served.client.get("/v1/artifacts", params=query)).json()["items"]
        assert ref["artifact_id"] in [item["artifact_id"] for item in listed]
    receipt = (await served.client.delete("/v1/actors/ada")).json()
    assert receipt["deleted"]["copies"] == 6  # her message, its answer and its file, in two conversations
    for one in (made, twice):
        left = await history(served, one["conversation_id"])
        assert texts(left) == ["make of the run", "done: make of the run."]
        query = {"conversation_id": one["conversation_id"]}
        assert (await served.client.get("/v1/artifacts", params=query)).json()["items"] == []
    found = (await served.client.get("/v1/search?q=hello")).json()["items"]
    assert found == []


async def test_search_finds_in_all_conversations(served: Served) -> None:
    for name in ("a", "b"):
        await served.say(f"zebra {name}", conversation_id=name)
    found = (await served.client.get("/v1/search?q=zebra+done")).json()
    assert [item["conversation_id"] for item in found["items"]] == ["b", "a"]
    run = found["items"][0]["run_id"]
    assert (await served.client.get(f"/v1/runs/{run}")).json()["conversation_id"] == "b"
    page = await served.client.get(
        "/v1/conversations/b/history", params={"before": found["items"][0]["cursor"]}
    )
    assert [item["role"] for item in page.json()["items"]] == ["user"]
    assert (await served.client.get("/v1/search?q=")).status_code == 400


async def test_files_are_listed_newest_first_in_pages(served: Served) -> None:
    names = [f"{number}.txt" for number in range(5)]
    for name in names:
        await served.client.post(f"/v1/artifacts?name={name}&conversation_id=c", content=name.encode())
    found: list[str] = []
    cursor = None
    while True:
        query: dict[str, Any] = {"conversation_id": "c", "limit": 2}
        query |= {} if cursor is None else {"cursor": cursor}
        page = (await served.client.get("/v1/artifacts", params=query)).json()
        found += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break
    assert sorted(found) == names
    run = await served.say("make it", conversation_id="c")
    of_run = (await served.client.get(f"/v1/artifacts?run_id={run['run_id']}")).json()["items"]
    assert [item["name"] for item in of_run] == ["made.txt"]
    for wrong in ("", "?conversation_id=c&run_id=r"):
        assert (await served.client.get(f"/v1/artifacts{wrong}")).status_code == 400
