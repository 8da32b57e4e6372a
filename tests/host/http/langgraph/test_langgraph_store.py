"""The store of the LangGraph interface, with its official client."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph_sdk.errors import APIStatusError, BadRequestError, PermissionDeniedError

from hostler.domain.allowances import WorkspaceEntry
from hostler.domain.quotas import WorkspaceQuota
from hostler.host.config import ConfigFile
from hostler.storage.stores import client_items, quotas
from support.dialects.langgraph import langgraph
from support.http_host import WORKSPACE, Served


async def keys(client: Any, *prefix: str, **wanted: Any) -> list[str]:
    """The keys of the items that a search finds."""
    return [one["key"] for one in (await client.store.search_items(prefix, **wanted))["items"]]


async def test_items(served: Served) -> None:
    async with langgraph(served.url) as client:
        store = client.store
        await store.put_item(["users", "ada"], key="likes", value={"food": "茶 👩‍👩‍👧", "n": 1})
        item = await store.get_item(["users", "ada"], key="likes")
        assert (item["namespace"], item["key"], item["value"]) == (
            ["users", "ada"],
            "likes",
            {"food": "茶 👩‍👩‍👧", "n": 1},
        )
        await store.put_item(["users", "ada"], key="likes", value={"n": 2}, index=False)
        changed = await store.get_item(["users", "ada"], key="likes")
        assert changed["value"] == {"n": 2}, "the whole value is replaced"
        assert changed["created_at"] == item["created_at"]
        assert changed["updated_at"] >= item["updated_at"]
        assert await store.get_item(["users"], key="likes") is None
        await store.delete_item(["users", "ada"], key="likes")
        await store.delete_item(["users", "ada"], key="likes")
        assert await store.get_item(["users", "ada"], key="likes") is None


async def test_search_and_namespaces(served: Served) -> None:
    async with langgraph(served.url) as client:
        store = client.store
        for number, who in enumerate(("ada", "adam", "bob")):
            await store.put_item(["users", who, "notes"], key=f"note-{who}", value={"n": number, "who": who})
        await store.put_item(["users", "bob"], key="deep", value={"n": 2.5, "at": {"city": "北京", "zip": 1}})
        await store.put_item(["teams"], key="team", value={"n": "x", "tags": ["a"]})
        assert await keys(client) == ["team", "deep", "note-bob", "note-adam", "note-ada"], "newest first"
        assert await keys(client, "users", "ada") == ["note-ada"], "a prefix of labels, not of letters"
        assert await keys(client, "users", limit=2, offset=1) == ["note-bob", "note-adam"]
        for wanted, expected in (
            ({"who": "adam"}, ["note-adam"]),
            ({"n": {"$gte": 1, "$lt": 2.5}}, ["note-bob", "note-adam"]),
            ({"n": {"$gt": 2}}, ["deep"]),
            ({"n": {"$lte": 0}}, ["note-ada"]),
            ({"n": {"$ne": 2}, "who": {"$eq": "bob"}}, []),
            ({"at": {"city": "北京"}}, ["deep"]),
            ({"tags": ["a"]}, ["team"]),
            ({"n": {"$gt": "w"}}, ["team"]),
            ({"missing": None}, ["team", "deep", "note-bob", "note-adam", "note-ada"]),
        ):
            assert await keys(client, filter=wanted) == expected, wanted
        assert await keys(client, "users", filter={"n": {"$gte": 0}}, limit=1, offset=1) == ["note-bob"]

        async def listed(**wanted: Any) -> list[list[str]]:
            found: list[list[str]] = (await store.list_namespaces(**wanted))["namespaces"]
            return found

        notes = [["users", who, "notes"] for who in ("ada", "adam", "bob")]
        assert await listed() == [["teams"], *notes[:2], ["users", "bob"], notes[2]]
        assert await listed(prefix=["users"], suffix=["notes"]) == notes
        assert await listed(prefix=["users", "*", "notes"]) == notes
        assert await listed(max_depth=1) == [["teams"], ["users"]]
        assert await listed(prefix=["users"], max_depth=2, limit=1, offset=1) == [["users", "adam"]]


async def test_what_is_refused_and_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with langgraph(served.url) as client:
        store = client.store
        for refusal, words in (
            (store.put_item(["a"], key="k", value={}, ttl=5), "ttl"),
            (store.put_item([], key="k", value={}), "one label or more"),
            (store.put_item(["a", ""], key="k", value={}), "no label"),
            (store.put_item(["a\x00"], key="k", value={}), "NUL"),
            (store.put_item(["a" * 256], key="k", value={}), "255"),
            (store.put_item(["a"], key="", value={}), "255"),
            (store.put_item(["a"], key="k" * 256, value={}), "255"),
            (store.search_items(["a"], query="tea"), "knowledge bases"),
            (store.search_items(["a"], filter={"n": {"$near": 1}}), r"\$near"),
            (store.list_namespaces(max_depth=0), "max_depth"),
            (store.search_items(["a"], limit=0), "limit"),
        ):
            with pytest.raises(BadRequestError, match=words):
                await refusal
        with pytest.raises(APIStatusError, match="bytes of JSON"):
            await store.put_item(["a"], key="k", value={"big": "x" * 300_000})
        # what is found fits into one answer, and the rest is on the next page
        monkeypatch.setattr("hostler.http.langgraph.store.MAX_PAGE_BYTES", 450)
        for number in range(3):
            await store.put_item(["b"], key=f"k{number}", value={"text": "x" * 200})
        assert await keys(client, "b") == ["k2"]
        assert await keys(client, "b", offset=1) == ["k1"]
        # a workspace's quota of storage, and the sum of it
        entry = WorkspaceEntry(name=WORKSPACE, quota=WorkspaceQuota(max_storage_values=3))
        await served.host.apply(ConfigFile(workspaces=[entry]), actor="test")
        with pytest.raises(APIStatusError, match="max_storage_values"):
            await store.put_item(["b"], key="k3", value={})
        await store.put_item(["b"], key="k2", value={"smaller": True})
        await store.delete_item(["b"], key="k0")
        await store.put_item(["c"], key="k3", value={})
        assert await served.host.db.read(lambda tx: quotas.recount(tx, WORKSPACE)) == []


async def test_rights_and_workspaces(served: Served) -> None:
    async with langgraph(served.url) as client:
        await client.store.put_item(["a"], key="k", value={"mine": 1})
    async with langgraph(served.url, await served.key("other")) as foreign:
        assert await foreign.store.get_item(["a"], key="k") is None
        assert await keys(foreign) == []
        assert (await foreign.store.list_namespaces())["namespaces"] == []
        await foreign.store.put_item(["a"], key="k", value={"theirs": 1})
        await foreign.store.delete_item(["a"], key="k")
    async with langgraph(served.url, await served.key(WORKSPACE, "conversations:read")) as reader:
        assert (await reader.store.get_item(["a"], key="k"))["value"] == {"mine": 1}
        for denied in (
            reader.store.put_item(["a"], key="k", value={}),
            reader.store.delete_item(["a"], key="k"),
        ):
            with pytest.raises(PermissionDeniedError, match="conversations:write"):
                await denied
    async with langgraph(served.url, await served.key(WORKSPACE, "runs:read")) as blind:
        with pytest.raises(PermissionDeniedError, match="conversations:read"):
            await blind.store.get_item(["a"], key="k")


async def test_a_namespace_is_full(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.storage.stores.plugin_storage.MAX_KEYS", 2)
    monkeypatch.setattr(client_items, "MAX_NAMESPACES", 2)
    async with langgraph(served.url) as client:
        for key in "ab":
            await client.store.put_item(["n"], key=key, value={})
        with pytest.raises(APIStatusError, match="10,000 items"):
            await client.store.put_item(["n"], key="c", value={})
        for name in "op":
            await client.store.put_item([name], key="a", value={})
        assert (await client.store.list_namespaces())["namespaces"] == [["n"], ["o"]]
