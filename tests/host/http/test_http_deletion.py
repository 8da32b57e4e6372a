"""With the receipt of a deletion the bytes are gone, at once; what others have of the same bytes stays."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from hostler.host.lock import maintenance
from hostler.storage.stores import blobs
from support.http_host import Served, serving

pytestmark = pytest.mark.gate("deletion")

SECRET = b"nobody may read this again: " + bytes(range(256)) * 400
SHARED = b"what two conversations have in common " * 3000


def holding(tmp_path: Path, content: bytes) -> list[Path]:
    """The files of the blob folder that hold the content."""
    every = (path for path in (tmp_path / "blobs").rglob("*") if path.is_file())
    return [path for path in every if content in path.read_bytes()]


async def upload(served: Served, content: bytes, **where: str) -> str:
    answer = await served.client.post(
        "/v1/artifacts", params=where, content=content, headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 201, answer.text
    artifact_id: str = answer.json()["artifact_id"]
    return artifact_id


async def bring(served: Served, content: bytes, conversation_id: str) -> None:
    """A message of ada's with a file in it, and its run."""
    file = {"type": "file_base64", "file_base64": base64.b64encode(content).decode()}
    body = {
        "event_type": "message.received",
        "conversation_id": conversation_id,
        "actor": {"actor_id": "ada"},
        "input": {"text": "say 1", "contents": [file]},
    }
    answer = await served.client.post("/v1/events", params={"wait": 30}, json=body)
    assert answer.status_code == 200, answer.text
    assert holding(served.host.settings.data_dir, content)


async def test_schedules_that_would_bring_it_back_go_with_a_conversation_or_person(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        client = served.client
        await served.say("say 1", conversation_id="gone")
        wanted: dict[str, dict[str, Any]] = {
            "to-it": {"conversation_id": "gone", "text": "say 1"},
            "hers": {"actor": {"actor_id": "ada"}, "text": "say 1"},
            "other": {"conversation_id": "kept", "text": "say 1"},
        }
        for name, fields in wanted.items():
            spec = {"name": name, "every": 86_400, "agent": "puppet", **fields}
            assert (await client.post("/v1/schedules", json=spec)).status_code == 201
        for path in ("/v1/conversations/gone", "/v1/actors/ada"):
            receipt = await client.delete(path)
            assert receipt.status_code == 200, receipt.text
            assert receipt.json()["deleted"]["schedules"] == 1
        assert [one["name"] for one in (await client.get("/v1/schedules")).json()["items"]] == ["other"]
        removed = (await client.get("/v1/audit", params={"action": "schedule.removed"})).json()["items"]
        assert {(one["target"], one["body"]["cause"]) for one in removed} == {
            ("to-it", "deletion"),
            ("hers", "deletion"),
        }


async def test_the_bytes_of_a_conversation_are_gone_with_its_receipt(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await bring(served, SECRET, "gone")
        await upload(served, SECRET + b"uploaded", conversation_id="gone")
        assert len(holding(tmp_path, SECRET)) == 2
        receipt = await served.client.delete("/v1/conversations/gone")
        assert receipt.status_code == 200, receipt.text
        assert receipt.json()["deleted"]["artifacts"] == 2
        assert holding(tmp_path, SECRET) == []

    await _with(tmp_path, scenario)


async def test_the_bytes_of_a_person_are_gone_with_the_receipt(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await bring(served, SECRET, "c")
        receipt = await served.client.delete("/v1/actors/ada")
        assert receipt.json()["deleted"]["artifacts"] == 1
        assert holding(tmp_path, SECRET) == []

    await _with(tmp_path, scenario)


async def test_the_bytes_of_a_deleted_artifact_are_gone(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        artifact_id = await upload(served, SECRET)
        assert (await served.client.delete(f"/v1/artifacts/{artifact_id}")).status_code == 204
        assert holding(tmp_path, SECRET) == []

    await _with(tmp_path, scenario)


async def test_a_conversation_of_files_alone_is_deleted(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await upload(served, SECRET, conversation_id="files")
        assert (await served.client.delete("/v1/conversations/files")).status_code == 200
        assert holding(tmp_path, SECRET) == []

    await _with(tmp_path, scenario)


async def test_bytes_that_others_have_too_stay(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await bring(served, SHARED, "gone")
        kept = await upload(served, SHARED, conversation_id="kept")
        assert (await served.client.delete("/v1/conversations/gone")).status_code == 200
        content = await served.client.get(f"/v1/artifacts/{kept}/content")
        assert content.content == SHARED

    await _with(tmp_path, scenario)


async def test_uploads_beside_a_deletion_of_the_same_bytes_are_whole(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        async def deleting(number: int) -> None:
            await upload(served, SHARED, conversation_id=f"gone-{number}")
            assert (await served.client.delete(f"/v1/conversations/gone-{number}")).status_code == 200

        uploading = asyncio.gather(*(upload(served, SHARED, conversation_id="kept") for _ in range(8)))
        await asyncio.gather(uploading, *(deleting(number) for number in range(8)))
        for artifact_id in await uploading:
            content = await served.client.get(f"/v1/artifacts/{artifact_id}/content")
            assert (content.status_code, content.content) == (200, SHARED)
        assert (await served.client.delete("/v1/conversations/kept")).status_code == 200
        assert holding(tmp_path, SHARED) == []

    await _with(tmp_path, scenario)


async def test_nothing_is_deleted_while_a_backup_is_made(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await bring(served, SECRET, "c")
        with maintenance(tmp_path, shared=True):
            refused = await served.client.delete("/v1/conversations/c", timeout=60)
            assert (refused.status_code, refused.json()["retryable"]) == (503, True)
            assert str(tmp_path) not in refused.text
            assert holding(tmp_path, SECRET)
            assert (await served.client.get("/v1/conversations/c/history")).json()["items"]
        assert (await served.client.delete("/v1/conversations/c")).status_code == 200
        assert holding(tmp_path, SECRET) == []

    await _with(tmp_path, scenario)


async def test_the_next_start_removes_what_a_deletion_let_go_of(tmp_path: Path) -> None:
    async def interrupted(served: Served) -> None:
        await upload(served, SECRET)
        sha256 = hashlib.sha256(SECRET).hexdigest()
        await served.host.db.write(lambda tx: blobs.release(tx, sha256))  # and then the host ends
        assert holding(tmp_path, SECRET)

    async def after(_: Served) -> None:
        while holding(tmp_path, SECRET):
            await asyncio.sleep(0.02)

    await _with(tmp_path, interrupted)
    await _with(tmp_path, after)


async def _with(tmp_path: Path, scenario: Any) -> None:
    async with asyncio.timeout(120), serving(tmp_path) as served:
        await scenario(served)
