"""An event in the context of its run: files, places, people and the delivery policy."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.storage.stores import events
from support.stepping import WORKSPACE, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}


async def test_inline_files_become_artifacts(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        small, large = b"s" * 1000, b"l" * 400_000
        contents = [
            {"type": "text", "text": '[["show_context"]]'},
            {
                "type": "image_base64",
                "image_base64": base64.b64encode(small).decode(),
                "mime_type": "image/png",
            },
            {
                "type": "file_base64",
                "file_base64": base64.b64encode(large).decode(),
                "file_name": "l.bin",
            },
        ]
        ended = await host.run([], event_id="files", input={"contents": contents}, **PLACE)
        text, image, file = ended.told["input"]["contents"]
        assert ended.told["input"]["text"] == text["text"] == '[["show_context"]]'
        assert base64.b64decode(image["image_base64"]) == small
        assert (file["type"], file["size_bytes"], file["file_name"]) == ("artifact", 400_000, "l.bin")
        stored = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, "files"))
        assert stored is not None
        assert stored.content_redacted is True
        assert "base64" not in msgspec.json.encode(stored.envelope).decode()
        # the artifact is in the run's reach, and in no other place's
        read = ["call", "artifact.metadata", {"artifact_id": file["artifact_id"]}]
        assert (await host.run([read, ["tell"]], **PLACE)).told[0]["size_bytes"] == 400_000
        away = await host.run([read, ["tell"]], conversation_id="d")
        assert away.told[0]["error"]["code"] == "not_found"


async def test_the_context_says_what_the_event_said(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(config={"colour": "blue", "token": "env:STEPPER_SECRET", "timeout": 50})
        given: dict[str, Any] = {
            "event_type": "message.received",
            "event_time": 1_700_000_000.5,
            "source": "webhook",
            "source_event_type": "chat.message",
            "raw_ref": "raw-1",
            "bot_id": "b",
            "conversation_id": "c",
            "thread_id": "t",
            "launcher_type": "group",
            "launcher_id": "l",
            "sender_id": "s",
            "session_id": "z",
            "actor": {"actor_type": "user", "actor_id": "u", "actor_name": "Ada", "metadata": {"a": 1}},
            "subject": {"subject_type": "ticket", "subject_id": "9", "data": {"d": 2}},
            "data": {"params": {"x": [1]}, "more": True},
            "metadata": {"m": 1},
            "delivery": {
                "surface": "chat",
                "reply_target": {"to": 1},
                "supports_edit": True,
                "max_message_size": 900,
            },
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STEPPER_SECRET", "very secret")
            ended = await host.run([["show_context"]], **given)
        told = ended.told
        assert told["trigger"] == {
            "type": "message.received",
            "source": "webhook",
            "timestamp": 1_700_000_000.5,
        }
        assert told["event"]["source_event_type"] == "chat.message"
        assert told["event"]["data"] == given["data"]
        assert told["event"]["raw_ref"] == "raw-1"
        assert told["conversation"] == {
            "conversation_id": "c",
            "thread_id": "t",
            "launcher_type": "group",
            "launcher_id": "l",
            "sender_id": "s",
            "bot_id": "b",
            "workspace_id": WORKSPACE,
            "session_id": "z",
        }
        assert told["actor"] == given["actor"]
        assert told["subject"] == given["subject"]
        assert told["delivery"] | given["delivery"] == told["delivery"]
        assert told["adapter"] == {"extra": {"params": {"x": [1]}}}
        assert told["metadata"] == {"m": 1}
        assert told["config"] == {"colour": "blue", "token": "very secret", "timeout": 50}
        assert told["context"]["inline_policy"]["mode"] == "current_event"
        assert not {"messages", "bootstrap"} & set(told)
        assert len(told["runtime"]["trace_id"]) == 32
        assert told["continuation"] is None
        # the secret is in no journal
        context = ended.entries("context")[0]["data"]
        assert context["config"]["token"] == "env:STEPPER_SECRET"
        assert "very secret" not in json.dumps([e for e in ended.journal if e["kind"] != "result"])


async def test_the_delivery_policy_stands_in_the_context(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        quiet = {"enable_streaming": False, "enable_reply": False, "max_message_size": 500}
        await host.agent(delivery_policy=quiet)
        delivery = {"surface": "chat", "reply_target": {"to": 1}, "max_message_size": 900}
        told = (await host.run([["show_context"]], delivery=delivery)).told["delivery"]
        assert (told["supports_streaming"], told["reply_target"], told["max_message_size"]) == (
            False,
            None,
            500,
        )
