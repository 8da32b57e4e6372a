"""OpenAI's Conversations with its client for Python: every method, what is kept, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from hostler.storage.stores import quotas
from support.dialects.openai_responses import client_of
from support.dialects.players import playing, script
from support.http_host import OTHER, Served


async def recounted(served: Served) -> list[Any]:
    return list(await quotas.recount_all(served.host.db))


async def test_metadata_is_kept_changed_and_deleted_with_its_conversation(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served, client_of(served.url) as client:
        made = await client.conversations.create(metadata={"topic": "茶", "empty": ""})
        assert made.metadata == {"topic": "茶", "empty": ""}
        assert (await client.conversations.retrieve(made.id)) == made
        response = await client.responses.create(
            model="player", input=script(["seen"]), conversation=made.id, metadata={"of": "the response"}
        )
        assert "topic" not in response.output_text  # no run sees it
        assert (await client.conversations.retrieve(made.id)).metadata == made.metadata
        changed = await client.conversations.update(made.id, metadata={"topic": "coffee"})
        assert (changed.id, changed.metadata) == (made.id, {"topic": "coffee"})
        assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "coffee"}
        (state,) = (await served.client.get(f"/v1/conversations/{made.id}/state")).json()["items"]
        assert (state["key"], state["value"], state["agent_id"]) == (
            "metadata",
            {"topic": "coffee"},
            "conversations",
        )
        assert await recounted(served) == []
        assert (await client.conversations.update(made.id, metadata=None)).metadata == {}
        assert (await client.conversations.retrieve(made.id)).metadata == {}
        await client.conversations.update(made.id, metadata={"topic": "cocoa"})
        first, second = (await client.conversations.items.list(made.id, order="asc")).data
        found = await client.conversations.items.retrieve(str(first.id), conversation_id=made.id)
        assert found == first
        assert (await client.conversations.delete(made.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.retrieve(str(second.id), conversation_id=made.id)
        assert (await client.conversations.retrieve(made.id)).metadata == {}
        assert (await served.client.get(f"/v1/conversations/{made.id}/state")).json()["items"] == []
        assert await recounted(served) == []


async def test_a_conversation_of_another_client_takes_metadata_and_one_of_nobody_does_not(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path / "data") as served, client_of(served.url) as client:
        body = {"event_type": "message.received", "agent": "player", "conversation_id": "room/7 α"}
        sent = {**body, "input": {"text": "hello"}}
        assert (await served.client.post("/v1/events", json=sent, params={"wait": 30})).status_code == 200
        await client.conversations.update("room/7 α", metadata={"a": "b"})
        assert (await client.conversations.retrieve("room/7 α")).metadata == {"a": "b"}
        with pytest.raises(openai.NotFoundError):
            await client.conversations.update("nobody's", metadata={"a": "b"})
        nobodys = (await served.client.get("/v1/conversations/nobody's/state")).json()
        assert nobodys["items"] == []
        other = await served.key(OTHER, "admin")
        async with client_of(served.url, other) as foreign:
            with pytest.raises(openai.NotFoundError):
                await foreign.conversations.retrieve("room/7 α")
            with pytest.raises(openai.NotFoundError):
                await foreign.conversations.update("room/7 α", metadata={"a": "theirs"})
        reader = await served.key("default", "conversations:read")
        async with client_of(served.url, reader) as reads:
            assert (await reads.conversations.retrieve("room/7 α")).metadata == {"a": "b"}
            with pytest.raises(openai.PermissionDeniedError):
                await reads.conversations.update("room/7 α", metadata={})


async def test_what_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served, client_of(served.url, max_retries=0) as client:
        made = await client.conversations.create(metadata={"a": "b"})
        wrong: list[Any] = [
            {"x" * 65: "long key"},
            {"k": "v" * 513},
            {f"k{number}": "" for number in range(17)},
            {"k": 1},
        ]
        for metadata in wrong:
            with pytest.raises(openai.BadRequestError):
                await client.conversations.update(made.id, metadata=metadata)
            with pytest.raises(openai.BadRequestError):
                await client.conversations.create(metadata=metadata)
        item: Any = {"type": "message", "role": "user", "content": "x"}
        for request in (
            client.conversations.create(items=[item]),
            client.conversations.items.create(made.id, items=[item]),
            client.conversations.items.delete("item_1", conversation_id=made.id),
        ):
            with pytest.raises(openai.BadRequestError):
                await request
        quota = {"name": "default", "quota": {"max_state_bytes": 200}, "tools": ["*"]}
        assert (await served.client.put("/v1/config/workspaces/default", json=quota)).status_code == 200
        with pytest.raises(openai.APIStatusError) as full:
            await client.conversations.update(made.id, metadata={"k": "v" * 500})
        assert (full.value.status_code, "max_state_bytes" in str(full.value)) == (413, True)
        assert (await client.conversations.retrieve(made.id)).metadata == {"a": "b"}
        assert await recounted(served) == []


async def test_a_response_goes_with_its_conversation_and_not_with_that_of_others(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served, client_of(served.url) as client:
        alone = await client.responses.create(model="player", input=script(["say", "一"]))
        await client.responses.delete(alone.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(alone.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(alone.id, stream=True)
        with pytest.raises(openai.NotFoundError):
            await client.responses.delete(alone.id)
        first = await client.responses.create(model="player", input=script(["say", "two"]))
        await client.responses.create(
            model="player", input=script(["say", "three"]), previous_response_id=first.id
        )
        with pytest.raises(openai.BadRequestError, match="has others: delete it as a whole"):
            await client.responses.delete(first.id)
        assert (await client.responses.retrieve(first.id)).output_text == "two"
        held = await client.responses.create(model="player", input=script(["hold"]), background=True)
        with pytest.raises(openai.ConflictError):
            await client.responses.delete(held.id)
        await client.responses.cancel(held.id)
        await client.responses.delete(held.id)
        assert await recounted(served) == []
