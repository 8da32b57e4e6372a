"""State and storage of runs on a real database: what they answer, and that those of others are never seen."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.errors import ConflictError
from support.call_world import World, world_of
from support.grants import event_of


@pytest.fixture
async def world(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(database, tmp_path) as made:
        yield made


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_state_is_written_read_listed_and_deleted(world: World) -> None:
    caller = world.caller()
    assert (await caller.call("state.get", scope="actor", key="k")).version == 0
    assert (await caller.call("state.set", scope="actor", key="k", value={"a": [1]})).version == 1
    got = await caller.call("state.get", scope="actor", key="k")
    assert (got.value, got.version) == ({"a": [1]}, 1)
    with pytest.raises(ConflictError, match="has version 1, not 7") as caught:
        await caller.call("state.set", scope="actor", key="k", value=2, if_version=7)
    assert caught.value.details == {"version": 1}
    await caller.call("state.set", scope="actor", key="k_", value=2)
    await caller.call("state.set", scope="actor", key="kx", value=3)
    page = await caller.call("state.list", scope="actor", limit=2)
    assert (page.items, page.has_more) == (["k", "k_"], True)
    rest = await caller.call("state.list", scope="actor", cursor=page.next_cursor)
    assert (rest.items, rest.has_more) == (["kx"], False)
    assert (await caller.call("state.list", scope="actor", prefix="k_")).items == ["k_"]
    assert (await caller.call("state.delete", scope="actor", key="k")).deleted
    assert not (await caller.call("state.delete", scope="actor", key="k")).deleted
    assert (await caller.call("state.list", scope="conversation")).items == []


async def test_the_conversations_own_id_is_there_until_it_is_set(world: World) -> None:
    caller = world.caller()
    for key in ("conversation_id", "external.conversation_id"):
        got = await caller.call("state.get", scope="conversation", key=key)
        assert (got.value, got.version) == ("c1", 0)
    await caller.call("state.set", scope="conversation", key="conversation_id", value="theirs", if_version=0)
    assert (
        await caller.call("state.get", scope="conversation", key="external.conversation_id")
    ).value == "theirs"
    listed = await caller.call("state.list", scope="conversation", prefix="conversation_id")
    assert listed.items == ["external.conversation_id"]
    assert (await caller.call("state.get", scope="actor", key="conversation_id")).value is None


async def test_state_and_storage_of_others_are_never_seen(world: World) -> None:
    own = world.caller()
    others = {
        "other workspace": world.caller("other"),
        "other agent": world.caller(agent="stranger"),
        "other actor": world.caller(event=event_of(event_id="e-own", actor_id="bob")),
    }
    await own.call("state.set", scope="actor", key="k", value="mine")
    await own.call("storage.set", area="workspace", key="k", content_base64=b64(b"ours"))
    for name, other in others.items():
        assert (await other.call("state.get", scope="actor", key="k")).value is None, name
    assert (
        await others["other workspace"].call("storage.get", area="workspace", key="k")
    ).content_base64 is None
    shared = await others["other agent"].call("storage.get", area="workspace", key="k")
    assert shared.content_base64 == b64(b"ours"), "workspace storage is shared by its agents"


async def test_storage_areas_are_apart(world: World) -> None:
    caller = world.caller()
    await caller.call("storage.set", area="plugin", key="k", content_base64=b64(b"\x00plugin"))
    await caller.call("storage.set", area="workspace", key="k", content_base64=b64(b""))
    assert (await caller.call("storage.get", area="plugin", key="k")).content_base64 == b64(b"\x00plugin")
    assert (await caller.call("storage.get", area="workspace", key="k")).content_base64 == ""
    assert (await caller.call("storage.keys", area="plugin")).items == ["k"]
    assert (await caller.call("storage.delete", area="plugin", key="k")).deleted
    assert (await caller.call("storage.get", area="plugin", key="k")).content_base64 is None
    assert (await caller.call("storage.keys", area="workspace")).items == ["k"]
    assert await caller.refused("storage.set", content_base64="a$==") == "invalid_argument"
