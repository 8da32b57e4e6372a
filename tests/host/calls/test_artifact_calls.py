"""Artifacts and files of runs on a real database: who reads them, and what an upload must say."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.model_entries import ModelEntry
from hostler.models.catalog import build_catalog
from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.grants import FileResource
from hostler_protocol.manifest import FormItem
from support.call_world import World, world_of
from support.grants import event_of, grant_of, manifest_of
from support.model_server import ModelServer


@pytest.fixture
async def world(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(database, tmp_path) as made:
        yield made


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_an_upload_in_parts_becomes_an_artifact_of_the_conversation(world: World) -> None:
    caller = world.caller()
    first = await caller.call("artifact.upload", content_base64=b64(b"abc"), last=False)
    assert first.artifact_id is None
    last = await caller.call(
        "artifact.upload",
        upload_id=first.upload_id,
        part=1,
        content_base64=b64(b"defg"),
        last=True,
        name="x.txt",
        mime_type="text/plain",
        size_bytes=7,
        metadata={"k": 1},
        expires_in=60,
    )
    assert last.artifact_id in caller.uploads, "the runner may announce it"
    for other in (caller, world.caller(name="before"), world.caller(name="stranger", agent="stranger")):
        found = await other.call("artifact.metadata", artifact_id=last.artifact_id)
        assert (found.name, found.size_bytes, found.run_id) == ("x.txt", 7, caller.run_id)
        assert found.expires_at is not None
    part = await caller.call("artifact.read", artifact_id=last.artifact_id, offset=2, limit=3)
    assert (part.content_base64, part.length, part.has_more) == (b64(b"cde"), 3, True)
    end = await caller.call("artifact.read", artifact_id=last.artifact_id, offset=5)
    assert (end.content_base64, end.has_more) == (b64(b"fg"), False)
    past = await caller.call("artifact.read", artifact_id=last.artifact_id, offset=500)
    assert (past.content_base64, past.length, past.has_more) == ("", 0, False)


async def test_artifacts_are_read_by_whom_they_concern(world: World) -> None:
    made = await world.caller().call("artifact.upload")
    artifact_id = made.artifact_id
    elsewhere = event_of(event_id="e-own", conversation_id="c2")
    outsiders = {
        "another conversation": world.caller(name="elsewhere", event=elsewhere),
        "another thread": world.caller(name="thread", event=event_of(event_id="e-own", thread_id="t2")),
        "another bot": world.caller(name="before", event=event_of(event_id="e-own", bot_id="b2")),
        "no conversation": world.caller(name="child", event=event_of(event_id="e-own", conversation_id=None)),
        "another workspace": world.caller("other"),
    }
    for name, outsider in outsiders.items():
        for method in ("artifact.read", "artifact.metadata"):
            assert await outsider.refused(method, artifact_id=artifact_id) == "not_found", name
    # whoever sent the event may show it to the run
    for given in ({"attachments": [{"artifact_id": artifact_id}]}, {"contents": [_element(artifact_id)]}):
        shown = event_of(event_id="e-own", conversation_id="c2", given=given)
        assert (
            await world.caller(name="elsewhere", event=shown).refused(
                "artifact.read", artifact_id=artifact_id
            )
            == "ok"
        )


def _element(artifact_id: str) -> dict[str, Any]:
    return {"type": "artifact", "artifact_id": artifact_id}


async def test_uploads_are_the_runs_own_and_declared_truly(world: World) -> None:
    caller, other = world.caller(), world.caller(name="before")
    begun = await caller.call("artifact.upload", last=False)
    theirs = {"upload_id": begun.upload_id, "part": 1}
    assert await other.refused("artifact.upload", **theirs) == "not_found"
    assert await caller.refused("artifact.upload", upload_id=begun.upload_id, part=7) == "invalid_argument"
    assert await caller.refused("artifact.upload", size_bytes=6) == "invalid_argument"
    assert await caller.refused("artifact.upload", sha256="0" * 64) == "invalid_argument"
    assert await caller.refused("artifact.upload", size_bytes=5) == "ok"


async def test_a_model_sees_the_attachments_that_the_run_may_see(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        models = build_catalog([ModelEntry(id="gpt", base_url=server.base_url, api_key="k")])
        async with world_of(database, tmp_path, models) as world:
            png = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
            made = await world.caller().call(
                "artifact.upload", content_base64=b64(png), mime_type="image/png"
            )
            messages = [{"role": "user", "content": [_element(made.artifact_id)]}]
            server.always("seen")
            await world.caller().call("model.invoke", messages=messages)
            assert b64(png).encode() in server.requests[-1].body
            elsewhere = event_of(event_id="e-own", conversation_id="c2")
            outsider = world.caller(name="elsewhere", event=elsewhere)
            await outsider.call("model.invoke", messages=messages)
            assert b64(png).encode() not in server.requests[-1].body
            assert b"no longer available" in server.requests[-1].body


async def test_a_file_of_the_configuration_is_read_in_ranges(world: World) -> None:
    made = await world.caller(event=event_of(event_id="e-own", conversation_id="c2")).call("artifact.upload")
    file_id = made.artifact_id
    resources = ResourceCatalog(
        files={file_id: FileResource(file_id=file_id), "gone": FileResource(file_id="gone")}
    )
    form = [FormItem(name="paper", type="array[file]")]
    grant = grant_of(manifest=manifest_of(form=form), config={"paper": [file_id, "gone"]}, catalog=resources)
    caller = world.caller(grant=grant)
    got = await caller.call("file.get", file_id=file_id, offset=1, limit=2)
    assert (got.content_base64, got.size_bytes, got.has_more) == (b64(b"yt"), 5, True)
    assert await caller.refused("file.get", file_id="gone") == "not_found"
    assert await caller.refused("file.get", file_id="other") == "not_found"
