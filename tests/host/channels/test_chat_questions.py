"""Approvals and questions in a chat: asked where the conversation is, decided by whom the rule names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import DeliveryPolicy, ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest
from hostler.domain.pause_views import PauseView
from hostler.storage.stores import audit, chat_questions
from hostler.storage.stores.deletion import delete_actor
from support.channel_host import Chatting, chatting
from support.chat_platform import ChatPlatform, platform
from support.databases import TEST_SECONDS
from support.every_row import everything
from support.http_host import WORKSPACE
from support.pauses import ADMIN

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]
KICK = json.dumps({"action": "member.kick", "target": {"person_id": "mallory"}})

NOT_YOURS = "This is not yours to decide: this is for"
ASKED = """echo asks: May platform.member_kick be called?

Remove somebody from a chat.

person_id: "mallory"
channel: "chat"
chat_id: "room\""""


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


class Asking(Chatting):
    """A host whose agent asks people."""

    async def pause(self, status: str = "open") -> PauseView:
        """Wait for a pause in this status, and return it."""
        who = await self.admin()

        async def look() -> PauseView | None:
            found = (await self.host.pauses.page(who)).items
            return next((one for one in found if one.status == status), None)

        found: PauseView = await self.until(look)
        return found

    async def admin(self) -> Caller:
        return Caller(WORKSPACE, "admin", "admin", ADMIN.roles, ADMIN.rights)

    async def sent(self, count: int = 1) -> None:
        """Wait until so many messages are known to be sent: a reply to one is known by its id."""

        async def look() -> bool:
            return len([one for one in await self.outbox() if one.message_id is not None]) >= count

        await self.until(look)

    async def facts(self, action: str) -> list[tuple[str, Any]]:
        """The audit facts of an action, oldest first: who, and its body."""
        found = await self.host.db.read(lambda tx: audit.page(tx, WORKSPACE, limit=200))
        return [
            (one.actor, one.body) for one in sorted(found, key=lambda one: one.seq) if one.action == action
        ]


@asynccontextmanager
async def asking(
    folder: Path,
    chat: ChatPlatform,
    channel: str = "rich",
    *,
    rule: dict[str, Any] | None = None,
    **fields: Any,
) -> AsyncIterator[Asking]:
    policy: dict[str, Any] = {"allowed_actions": ["*"], "actions_anywhere": True}
    if rule is not None:
        policy["tool_approval"] = {"platform.member_kick": ToolApprovalPolicy(**rule)}
    agent = {"resource_policy": ResourcePolicy(**policy), **fields.pop("agent", {})}
    config = {"acts": str(folder / "acts")}
    async with chatting(folder, chat, channel, agent=agent, config_more=config, **fields) as host:
        found = Asking(host.served, host.platform)
        await found.connected()
        yield found


def calling(text: str) -> str:
    """A call of the platform with a text."""
    return json.dumps({"action": "platform.call", "payload": {"method": "m", "params": {"text": text}}})


def acts(folder: Path) -> list[Any]:
    """What was done on the platform."""
    file = folder / "acts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def number_of(chat: ChatPlatform, beginning: str) -> int:
    """The number of the bot's newest message that begins so."""
    return max(
        int(one["number"]) for one in chat.said if one["by"] == "bot-1" and one["said"].startswith(beginning)
    )


async def test_an_approval_is_asked_in_the_chat_and_a_button_decides_it(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with asking(tmp_path, chat):
        chat.say(KICK)
        (asked,) = await chat.until(1)
        assert asked == ASKED
        at = number_of(chat, "echo asks")
        assert chat.buttons(at) == ["Approve", "Deny"]
        assert all(len(one["value"].encode()) <= 64 for row in chat.said[at - 1]["buttons"] for one in row)
        assert acts(tmp_path) == [], "nothing is done before"
        chat.press(at, "Approve")
        await chat.holds(lambda: at in chat.edits and len(chat.by_bot()) == 2 and chat.notices)
        assert chat.edits[at][-1] == f"{asked}\n\nApproved by Ann."
        assert chat.buttons(at) == [], "there is nothing left to press"
        assert chat.notices == [("ann", "Approved by Ann.")]
        assert chat.by_bot()[1].startswith("done")
        assert [one["action"] for one in acts(tmp_path)] == ["member.kick"]


async def test_a_stranger_is_told_alone_and_changes_nothing(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        at = number_of(chat, "echo asks")
        for _ in range(3):
            chat.press(at, "Approve", by="bob")
        await chat.holds(lambda: len(chat.notices) == 3)
        assert {who for who, _ in chat.notices} == {"bob"}
        assert chat.notices[0][1] == f"{NOT_YOURS} the requester or the role 'admin' to decide"
        assert (await host.pause()).calls[0].votes == []
        assert await host.facts("pause.answer_refused") == [
            ("person:chat/bob", {"call_id": (await host.pause()).calls[0].call_id, "channel": "chat"})
        ], "the first time is recorded, and no more"
        assert (chat.edits, len(chat.by_bot())) == ({}, 1)
        chat.press(at, "Deny")
        await chat.holds(lambda: at in chat.edits)
        assert chat.edits[at][-1].endswith("Denied by Ann.")
        assert acts(tmp_path) == []


async def test_who_may_decide_is_what_the_rule_says(tmp_path: Path, chat: ChatPlatform) -> None:
    rule = {"subjects": ["person:chat/bob", "person:chat/cleo"], "min_approvals": 2}
    async with asking(tmp_path, chat, rule=rule):
        chat.say(KICK)
        (asked,) = await chat.until(1)
        assert asked.endswith("2 approvals are needed.")
        at = number_of(chat, "echo asks")
        chat.press(at, "Approve", by="ann")
        chat.press(at, "Approve", by="bob")
        chat.press(at, "Approve", by="bob")
        await chat.holds(lambda: len(chat.notices) == 3)
        assert [one for _, one in chat.notices] == [
            f"{NOT_YOURS} 'bob' in channel chat or 'cleo' in channel chat to decide",
            *["Noted. Others have to approve it, too."] * 2,
        ]
        assert acts(tmp_path) == []
        chat.press(at, "Approve", by="cleo")
        await chat.holds(lambda: at in chat.edits)
        assert chat.edits[at][-1].endswith("Approved by Cleo.")


async def test_presses_at_once_are_one_decision(tmp_path: Path, chat: ChatPlatform) -> None:
    people = [f"p{number}" for number in range(8)]
    async with asking(tmp_path, chat, rule={"subjects": ["*"]}) as host:
        chat.say(KICK)
        await chat.until(1)
        at = number_of(chat, "echo asks")
        for number, who in enumerate(people):
            chat.press(at, "Approve" if number % 2 else "Deny", by=who)
        await chat.holds(lambda: len(chat.notices) == len(people) and len(chat.by_bot()) == 2)
        assert len({said for _, said in chat.notices}) == 1, "all hear of the same decision"
        assert len(await host.facts("pause.vote")) == 1
        assert len(acts(tmp_path)) == (1 if "Approved" in chat.notices[0][1] else 0)
        assert len(chat.edits[at]) == 2


async def test_a_press_that_is_delivered_twice_is_one(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        at = number_of(chat, "echo asks")
        pressed = chat.press(at, "Approve")
        chat.tell_again(pressed)
        await chat.holds(lambda: len(chat.by_bot()) == 2 and at in chat.edits)
        chat.tell_again(pressed)
        chat.say("on")
        assert (await chat.until(3))[-1] == "on"
        assert len(await host.facts("pause.vote")) == 1
        assert len(acts(tmp_path)) == 1


@pytest.mark.parametrize(
    "value", ["ask:", "ask:x:0", "ask:x", "ask:{}:7", "ask:{}:-1", "ask:{}:00000", "ask:{}:²"]
)
async def test_what_is_no_button_of_ours_is_answered(tmp_path: Path, chat: ChatPlatform, value: str) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        real = chat.said[number_of(chat, "echo asks") - 1]["buttons"][0][0]["value"].split(":")[1]
        chat.send_value("room", value.format(real), by="ann")
        await chat.holds(lambda: chat.notices)
        assert chat.notices == [("ann", "This question is not there any more.")]
        assert (await host.pause()).calls[0].decision == "undecided"


async def test_a_button_works_in_its_own_chat_alone(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        value = chat.said[number_of(chat, "echo asks") - 1]["buttons"][0][0]["value"]
        chat.send_value("other room", value, by="ann")
        await chat.holds(lambda: chat.notices)
        assert chat.notices == [("ann", "This question is not there any more.")]
        assert (await host.pause()).calls[0].decision == "undecided"


async def test_what_is_decided_elsewhere_is_seen_in_the_chat(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        pause, admin = await host.pause(), await host.admin()
        call = pause.calls[0]
        deny = Action(call_id=call.call_id, type="deny", args_hash=call.args_hash, comment="she stays")
        await host.host.pauses.act(admin, pause.id, ActRequest(revision=1, actions=[deny]))
        at = number_of(chat, "echo asks")
        await chat.holds(lambda: at in chat.edits)
        assert chat.edits[at][-1].endswith("Denied by admin: she stays")
        value = chat.said[0]  # an old button, pressed by who still sees it
        assert value["by"] == "ann"
        await chat.until(2)


async def test_a_cancelled_run_says_that_it_is_over(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        pause = await host.pause()
        await host.served.client.post(f"/v1/runs/{pause.run_id}/cancel")
        at = number_of(chat, "echo asks")
        await chat.holds(lambda: at in chat.edits)
        assert chat.edits[at][-1].endswith("This is over: nothing was done.")


async def test_what_ends_before_it_was_asked_is_not_asked(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.fates = ["limited"] * 50
        chat.limit_seconds = 3600.0
        chat.say(KICK)
        pause = await host.pause()
        await host.until(lambda: host.asked(1))
        await host.served.client.post(f"/v1/runs/{pause.run_id}/cancel")

        async def gone() -> bool:
            return not await host.outbox()

        await host.until(gone)
        assert chat.by_bot() == []


@pytest.mark.parametrize("answer", ["1", " 1. ", "Approve", "approve!"])
async def test_without_buttons_a_number_or_a_word_decides(
    tmp_path: Path, chat: ChatPlatform, answer: str
) -> None:
    async with asking(tmp_path, chat, "wide") as host:
        chat.say(KICK)
        (asked,) = await chat.until(1)
        assert asked.endswith("\n\n1. Approve\n2. Deny\nAnswer with a number.")
        answered = chat.say(answer)
        assert min((await chat.until(3))[1:]) == "May platform.member_kick be called?: Approved by Ann."
        chat.tell_again(answered)  # it is no message to the agent, now that nothing waits
        chat.say("on")
        assert (await chat.until(4))[-1] == "on"
        assert len(await host.facts("pause.vote")) == 1


async def test_a_number_of_somebody_else_is_a_message_unless_it_replies(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with asking(tmp_path, chat, "wide", agent={"concurrency": {"on_busy": "parallel"}}) as host:
        chat.say(KICK)
        await chat.until(1)
        chat.say("2", by="bob")
        assert (await chat.until(2))[-1] == "2", "bob talks to the agent"
        await host.sent()
        chat.say("2", by="bob", reply_to=number_of(chat, "echo asks"))
        assert (await chat.until(3))[-1].startswith("This is not yours to decide")
        assert (await host.pause()).calls[0].decision == "undecided"


async def test_numbers_of_several_questions_differ(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat, "wide", agent={"concurrency": {"on_busy": "parallel"}}):
        chat.say(KICK)
        await chat.until(1)
        chat.say(KICK.replace("mallory", "trudy"))
        assert "3. Approve\n4. Deny" in (await chat.until(2))[1]
        chat.say("deny")  # of which one is not known: it is a message
        assert (await chat.until(3))[-1] == "deny"
        chat.say("4")
        await chat.until(5)
        chat.say("1")
        await chat.until(7)
        assert [one["person_id"] for one in acts(tmp_path)] == ["mallory"]


async def test_buttons_of_a_question_are_its_choices(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat):
        actions = [{"name": "s", "label": "Small"}, {"name": "l", "label": "Large", "style": "primary"}]
        chat.say(json.dumps({"ask": {"title": "Which size?", "actions": actions}}))
        assert await chat.until(1) == ["echo asks: Which size?"]
        at = number_of(chat, "echo asks")
        assert chat.buttons(at) == ["Small", "Large"]
        chat.press(at, "Large")
        assert (await chat.until(2))[-1].startswith("answered")
        await chat.holds(lambda: at in chat.edits)
        assert chat.edits[at][-1].endswith("Answered by Ann: Large")


async def test_words_fill_in_the_only_field_of_a_question(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        field = {"name": "n", "type": "number", "label": "How many", "required": True}
        chat.say(json.dumps({"ask": {"title": "How many?", "fields": [field]}}))
        assert await chat.until(1) == ["echo asks: How many?\n\nReply to this message with: How many"]
        at = number_of(chat, "echo asks")
        await host.sent()
        chat.say("many", reply_to=at)
        refused = (await chat.until(2))[-1]
        assert refused == "values do not fit the form: n: a number"
        chat.say("7", reply_to=at)
        assert (await chat.until(3))[-1] == 'answered {"n": 7} None'


async def test_in_a_private_chat_the_next_message_answers(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat):
        field = {"name": "day", "type": "text", "required": True}
        chat.say(json.dumps({"ask": {"title": "When?", "fields": [field]}}), kind="private")
        await chat.until(1)
        chat.say("next\n  Monday", kind="private")
        assert (await chat.until(2))[-1] == 'answered {"day": "next Monday"} None'


async def test_a_form_of_several_fields_is_filled_in_elsewhere(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat):
        fields = [{"name": name, "type": "text", "required": True} for name in ("from", "to")]
        chat.say(json.dumps({"ask": {"title": "Where?", "fields": fields}}), kind="private")
        assert (await chat.until(1))[0].endswith(
            "This cannot be decided in a chat: use the console, or `hostler pauses`."
        )
        assert chat.buttons(number_of(chat, "echo asks")) == []


async def test_arguments_that_nobody_can_read_in_a_chat_are_not_approved_there(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with asking(tmp_path, chat):
        chat.say(calling("x" * 9_000))
        (asked,) = await chat.until(1)
        assert "too many for a chat" in asked
        assert chat.buttons(number_of(chat, "echo asks")) == ["Deny"]


async def test_long_arguments_are_shown_whole_and_the_last_message_has_the_buttons(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with asking(tmp_path, chat):
        words = [f"word{number}" for number in range(100)]
        chat.say(calling(" ".join(words)))
        await chat.holds(lambda: any(one.get("buttons") for one in chat.said))
        parts = chat.by_bot()
        assert len(parts) == 3
        assert [bool(one.get("buttons")) for one in chat.said if one["by"] == "bot-1"] == [False, False, True]
        assert " ".join(parts).split('"text": "')[1].split('"')[0].split() == words


@pytest.mark.parametrize(("entry", "agent"), [({"ask_in_chat": False}, {}), ({}, {"enable_reply": False})])
async def test_a_channel_or_agent_that_does_not_ask_in_chats(
    tmp_path: Path, chat: ChatPlatform, entry: dict[str, Any], agent: dict[str, Any]
) -> None:
    async with asking(tmp_path, chat, agent={"delivery_policy": DeliveryPolicy(**agent)}, **entry) as host:
        chat.say(KICK)
        await host.pause()
        assert await host.outbox() == []


async def test_a_chat_shows_so_many_questions_at_once(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_questions, "MAX_OPEN_PER_CHAT", 2)
    async with asking(tmp_path, chat, agent={"concurrency": {"on_busy": "parallel"}}) as host:
        for _ in range(3):
            chat.say(KICK)

        async def three() -> bool:
            return len((await host.host.pauses.page(await host.admin())).items) == 3

        await host.until(three)
        await chat.until(2)
        assert len(await host.outbox()) == 2


async def test_an_account_decides_as_the_subject_that_it_is_bound_to(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    rule = {"approval": "required", "subjects": ["user:boss@example.org"]}
    async with asking(tmp_path, chat, rule=rule) as host:
        client = host.served.client
        chat.say(KICK)
        await chat.until(1)
        at = number_of(chat, "echo asks")
        chat.press(at, "Approve", by="bob")
        await chat.holds(lambda: len(chat.notices) == 1)
        assert chat.notices[0][1].startswith(NOT_YOURS)
        bound = await client.put("/v1/people/chat/bob", json={"subject": "boss@example.org"})
        assert bound.status_code == 200, bound.text
        chat.press(at, "Approve", by="bob")
        await chat.holds(lambda: at in chat.edits)
        assert chat.edits[at][-1].endswith("Approved by Bob.")
        await chat.holds(lambda: len(chat.by_bot()) == 2)
        assert [one["action"] for one in acts(tmp_path)] == ["member.kick"]


async def test_who_answered_is_forgotten_with_the_person(tmp_path: Path, chat: ChatPlatform) -> None:
    async with asking(tmp_path, chat) as host:
        chat.say(KICK)
        await chat.until(1)
        chat.press(number_of(chat, "echo asks"), "Approve", by="bob")
        await chat.holds(lambda: chat.notices)
        assert "Bob" in await host.host.db.read(everything)
        await delete_actor(host.host.db, host.host.blobs, WORKSPACE, "bob", by="test")
        assert "Bob" not in await host.host.db.read(everything)
