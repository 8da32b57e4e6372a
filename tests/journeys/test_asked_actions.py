"""Actions on platforms, asked for by a runner in a process of its own, through a whole host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.storage.stores import audit
from support.stepping import WORKSPACE, Stage, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}


async def facts(host: Stage, run_id: str) -> list[tuple[str, str]]:
    """What the audit log says of a run's actions: action and reason."""
    found = await host.host.db.read(lambda tx: audit.page(tx, WORKSPACE, limit=100))
    return [(one.action, one.body["reason"]) for one in found if one.target == run_id and one.body]


def asking(name: str = "message.delete", **fields: Any) -> list[Any]:
    return ["call", "action.request", {"action": name, **fields}]


@pytest.mark.parametrize(
    ("policy", "asked", "answer", "reason", "fact"),
    [
        ({}, asking(), "unauthorized", "policy does not allow action 'message.delete'", "refused"),
        ({"allowed_actions": ["*"]}, asking("file.send"), "unauthorized", "manifest does not ask", "refused"),
        ({"allowed_actions": ["*"]}, asking("mesage.delete"), "unauthorized", "does not ask", "refused"),
        ({"allowed_actions": ["*"]}, asking(target={"message_id": "1"}), "unsupported", "no channel", ""),
        (
            {"allowed_actions": ["*"]},
            asking(target={"message_id": "1", "chat_id": "d", "channel": "chat"}),
            "unauthorized",
            "that takes actions_anywhere",
            "refused",
        ),
        (
            {"allowed_actions": ["*"], "actions_anywhere": True},
            asking(target={"message_id": "1", "chat_id": "d", "channel": "chat"}),
            "unsupported",
            "there is no channel 'chat'",
            "",
        ),
        (
            {"allowed_actions": ["*"], "action_actors": {"message.delete": ["person:chat/u"]}},
            asking(target="1"),
            "unauthorized",
            "who caused the event",
            "refused",
        ),
    ],
)
async def test_what_becomes_of_an_action_is_told_apart(
    tmp_path: Path, policy: dict[str, Any], asked: list[Any], answer: str, reason: str, fact: str
) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(resource_policy=policy)
        ended = await host.run([asked, ["tell"]], **PLACE)
        (told,) = ended.told
        if answer == "unsupported":
            assert (told["outcome"], told["result"]) == ("unsupported", None)
            assert reason in told["reason"]
        else:
            assert told["error"]["code"] == answer
            assert reason in told["error"]["message"]
        ((action, why),) = await facts(host, ended.record.run_id)
        assert (action, reason in why) == (f"action.{fact or 'unsupported'}", True)
        (entry,) = ended.entries("call", "action.request")
        assert ("error" in entry["data"]) is (answer == "unauthorized")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (asking(target={"mesage_id": "1"}), "did you mean 'message_id'"),
        (asking(), '"message_id" is a required property'),
        (asking(target={"message_id": 1}), "message_id"),
        (asking(target="1", payload={"text": "x"}), "text"),
        (asking(target="1", payload={"chat_id": "x"}), "belongs into the target"),
        (asking(target="x" * 513), "message_id"),
    ],
)
async def test_wrong_fields_are_named(tmp_path: Path, asked: list[Any], words: str) -> None:
    async with within(), stage(tmp_path) as host:
        anywhere = {"allowed_actions": ["message.*"], "actions_anywhere": True}
        await host.agent(resource_policy=anywhere)
        target = asked[2].get("target")
        if not isinstance(target, str):
            asked[2]["target"] = {"channel": "chat", "chat_id": "d", **(target or {})}
        ended = await host.run([asked, ["tell"]], **PLACE)
        assert ended.told[0]["error"]["code"] == "invalid_argument"
        assert words in ended.told[0]["error"]["message"]


async def test_a_runner_that_asks_for_no_actions_cannot_ask_for_one(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(runner="bare", resource_policy={"allowed_actions": ["*"]})
        ended = await host.run([asking(), ["tell"]], **PLACE)
        assert ended.told[0]["error"]["code"] == "unauthorized"
        assert "manifest asks for no platform actions" in ended.told[0]["error"]["message"]


async def test_an_action_without_an_answer_is_audited_with_its_reason(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(resource_policy={"allowed_actions": ["message.delete"]})
        wanted: list[dict[str, Any]] = [
            {"target": "1"},
            {"target": {"id": 1}},
            {"target": "1", "payload": {"odd": 1}},
        ]
        asked = [["result", "action.requested", {"action": "message.delete", **one}] for one in wanted]
        ended = await host.run([*asked, ["say", "x"]], **PLACE)
        found = await facts(host, ended.record.run_id)
        assert sorted(action for action, _ in found) == ["action.refused"] * 2 + ["action.unsupported"]
        assert any("target.id is no field of targets" in why for _, why in found)
