"""Artifacts that a runner announces: size and digest by the host, also in a later attempt."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from support.stepping import Steps, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}


async def test_the_host_computes_size_and_digest_of_artifacts(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        content = b"some bytes\0\xff" * 100
        given = {
            "artifact_type": "file",
            "name": "a.bin",
            "content_base64": base64.b64encode(content).decode(),
        }
        ended = await host.run(
            [
                ["result", "artifact.created", given],
                ["say", "made"],
            ],
            **PLACE,
        )
        made = ended.results[0]["data"]
        assert made["size_bytes"] == len(content)
        assert made["sha256"] == hashlib.sha256(content).hexdigest()
        assert "content_base64" not in made
        read = await host.run(
            [
                ["call", "artifact.metadata", {"artifact_id": made["artifact_id"]}],
                ["call", "artifact.read", {"artifact_id": made["artifact_id"], "offset": 5, "limit": 7}],
                ["call", "artifact.read", {"artifact_id": made["artifact_id"], "offset": 10**6}],
                ["tell"],
            ],
            **PLACE,
        )
        metadata, part, past = read.told
        assert metadata["sha256"] == made["sha256"]
        assert "path" not in str(metadata)
        assert base64.b64decode(part["content_base64"]) == content[5:12]
        assert (part["offset"], part["length"], part["has_more"]) == (5, 7, True)
        assert (past["length"], past["has_more"]) == (0, False)


async def test_an_upload_is_announced_also_by_a_later_attempt(tmp_path: Path) -> None:
    """The plugin dies between the upload and its announcement."""
    async with within(), stage(tmp_path) as host:
        await host.agent(recovery={"on_crash": "restart"})
        part = base64.b64encode(b"half ").decode()
        steps: Steps = {
            "1": [
                [
                    "call",
                    "artifact.upload",
                    {"artifact_type": "file", "part": 0, "last": False, "content_base64": part},
                ],
                [
                    "call",
                    "artifact.upload",
                    {
                        "artifact_type": "file",
                        "name": "whole.txt",
                        "upload_id": "$0.upload_id",
                        "part": 1,
                        "last": True,
                        "content_base64": part,
                    },
                ],
                ["call", "state.set", {"scope": "actor", "key": "made", "value": "$1.artifact_id"}],
                ["crash"],
            ],
            "2": [
                ["call", "state.get", {"scope": "actor", "key": "made"}],
                ["result", "artifact.created", {"artifact_type": "file", "artifact_id": "$0.value"}],
                ["say", "announced"],
            ],
        }
        ended = await host.run(steps, **PLACE)
        assert ended.record.status == "completed", ended
        assert ended.types == [
            "attempt.started",
            "artifact.created",
            "message.completed",
            "run.completed",
        ]
        created = ended.results[1]["data"]
        assert (created["size_bytes"], created["name"]) == (10, "whole.txt")
