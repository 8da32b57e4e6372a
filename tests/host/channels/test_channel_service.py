"""A channel with its plugin in a process of its own: what people say is answered in their chat, once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec, DeliveryPolicy
from hostler.domain.channels import ChannelAccess
from hostler.domain.outbound import MAX_MESSAGES, messages_of
from hostler.host.config import ConfigFile
from hostler.host.config_entries import ENTRY_KINDS
from hostler.runs import replies
from hostler.storage.port import Query
from hostler.storage.stores import channel_connections as connections
from hostler.storage.stores import outbox, settings
from support.channel_host import Chatting, chatting, entry_for
from support.chat_platform import BOT, TOKEN, ChatPlatform, Fate, platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("channels")]


_DUE = "UPDATE outbox SET due_at = 1 WHERE workspace_id = 'default' AND due_at IS NOT NULL"
DUE = Query("due", _DUE, _DUE)


@pytest.fixture
async def chat() -> AsyncIterator[ChatPlatform]:
    async with platform() as found, asyncio.timeout(TEST_SECONDS):
        yield found


async def test_what_is_said_is_answered_where_it_was_said(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        asked = chat.say("hello")
        assert await chat.until(1) == ["hello"]
        answer = chat.said[-1]
        assert (answer["chat"], answer["answers"]) == ("room", str(asked))
        chat.say("and here", chat="other", by="bob")
        assert await chat.until(1, "other") == ["and here"]
        sent = await host.settled(2)
        assert [(one.status, one.attempts, one.maybe_twice) for one in sent] == [("sent", 1, False)] * 2
        assert sent[0].message_id == str(answer["number"])
        stands = await host.connected()
        assert stands.account is not None
        assert (stands.account.person_id, stands.account.name, stands.health) == ("bot-1", "Bot", "connected")
        assert stands.received == 2


async def test_a_long_answer_is_split_in_order_and_only_its_first_part_replies(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    code = "\n".join(f"line {number}" for number in range(40))
    text = f"First a paragraph.\n\n```python\n{code}\n```\n\nAnd the end."
    async with chatting(tmp_path, chat) as host:
        asked = chat.say(text)
        sent = await host.settled(5)
        said = chat.by_bot()
        assert len(said) == len(sent)
        assert all(len(one) <= 100 and one.count("```") % 2 == 0 for one in said), said
        assert [line for one in said for line in one.splitlines() if line.startswith("line")] == code.split(
            "\n"
        )
        assert [one["answers"] for one in chat.said if one["by"] == BOT] == [
            str(asked),
            *[None] * (len(said) - 1),
        ]


async def test_a_long_answer_is_split_before_the_transaction_that_stores_it(
    tmp_path: Path, chat: ChatPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def split(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return messages_of(*given)

    monkeypatch.setattr(replies, "messages_of", split)
    async with chatting(tmp_path, chat) as host:
        chat.say("word " * 8_000)
        assert len(await chat.until(2)) >= 2
        assert len(await host.outbox()) == MAX_MESSAGES
    assert [name.partition("_")[0] for name in threads] == ["asyncio"], "not on the writer's thread"


async def test_a_redelivered_event_runs_once(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        asked = chat.say("once", files={"a.txt": b"the same bytes"})
        await chat.until(1)
        for _ in range(3):
            chat.tell_again(asked)
        chat.say("after that")
        assert await chat.until(2) == ["once", "after that"]
        await host.settled(2)
        runs = (await host.served.client.get("/v1/runs")).json()["items"]
        assert len(runs) == 2
        artifacts = {one["artifact_id"] for run in runs for one in await host.files_of(run)}
        assert len(artifacts) == 1, "the files of the repeated deliveries are gone"


async def test_files_come_in_and_go_out(tmp_path: Path, chat: ChatPlatform) -> None:
    big = bytes(range(256)) * 10_000  # of several parts
    async with chatting(tmp_path, chat) as host:
        chat.say("", files={"big.bin": big, "small.txt": b"hello"})
        await chat.until(1)
        await host.settled(1)
        answer = chat.said[-1]
        assert [one["name"] for one in answer["files"]] == ["big.bin", "small.txt"]
        assert [host.content(one) for one in answer["files"]] == [big, b"hello"]


async def test_files_of_people_who_are_not_let_in_and_of_what_is_known_are_not_fetched(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    fetched = tmp_path / "fetched"
    config = {"fetched": str(fetched)}
    blocked = ChannelAccess(people=["mallory"])
    async with chatting(tmp_path, chat, block=blocked, config_more=config) as host:
        chat.say("mine", by="mallory", files={"theirs.txt": b"x"})
        chat.say("robot", by="robot", bot=True, files={"robots.txt": b"x"})
        number = chat.say("look", files={"a.txt": b"hello"})
        await chat.until(1)
        assert [host.content(one) for one in chat.said[-1]["files"]] == [b"hello"]
        chat.tell_again(number)
        chat.say("and here", files={"b.txt": b"again"})
        assert await chat.until(2) == ["look", "and here"]
        assert fetched.read_text().split() == ["a.txt", "b.txt"]
        assert (await host.connection()).ignored >= 2


async def test_files_that_are_too_large_or_of_another_type_are_refused(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with chatting(tmp_path, chat, max_file_bytes=2_000_000, file_types=["text/*"]) as host:
        chat.say("look", files={"big.bin": bytes(3_000_000)})
        failed = await host.until(lambda: host.health("failed"))
        assert "over 2,000,000 bytes" in failed.reason


async def test_what_the_bot_itself_and_other_bots_say_starts_nothing(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with chatting(tmp_path, chat) as host:
        chat.say("I am a bot, too", by="other-bot", bot=True)
        chat.say("hello")
        assert await chat.until(1) == ["hello"]
        await host.until(lambda: host.ignored(2))  # of the other bot, and its own answer, told to it as well
        assert chat.by_bot() == ["hello"]


async def test_bots_are_let_in_where_the_entry_says_so(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, allow_bots=True) as host:
        chat.say("beep", by="other-bot", bot=True)
        assert await chat.until(1) == ["beep"]
        await host.until(lambda: host.ignored(1))  # its own answer
        assert chat.by_bot() == ["beep"]


async def test_who_is_blocked_or_not_allowed_is_not_heard(tmp_path: Path, chat: ChatPlatform) -> None:
    allow = ChannelAccess(people=["ann", "eve"], chats=["lobby"])
    async with chatting(tmp_path, chat, allow=allow, block=ChannelAccess(people=["eve"])) as host:
        for by, where in (
            ("eve", "room"),
            ("bob", "room"),
            ("eve", "lobby"),
            ("ann", "room"),
            ("bob", "lobby"),
        ):
            chat.say(f"{by} in {where}", by=by, chat=where)
        assert await chat.until(1) == ["ann in room"]
        assert await chat.until(1, "lobby") == ["bob in lobby"]
        await host.until(lambda: host.ignored(5))  # and both answers, told to it as well


async def test_a_failed_run_says_so_in_the_chat(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat, failure_text="Sorry, that went wrong."):
        chat.say("fail")
        assert await chat.until(1) == ["Sorry, that went wrong."]


async def test_an_agent_that_does_not_reply_says_nothing(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(
        tmp_path, chat, agent={"delivery_policy": DeliveryPolicy(enable_reply=False)}
    ) as host:
        for text in ("hello", "fail"):
            chat.say(text)
        await host.until(lambda: host.ended(2))
        assert await host.outbox() == []


async def test_only_what_a_channel_brought_is_answered_there(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        await host.connected()
        target = {"channel": "chat", "chat_id": "room", "thread_id": None, "reply_to": None}
        delivery = {"surface": "keyed", "reply_target": target, "platform_capabilities": {"max_message": 100}}
        run = await host.served.say("forged", delivery=delivery)
        assert run["status"] == "completed"
        assert await host.outbox() == []
        wanted = {"name": "forger", "subject": "channel:chat", "rights": ["events:write"]}
        made = await host.served.client.post("/v1/keys", json=wanted)
        assert made.status_code == 400
        assert "those of channels" in made.text


# -- messages that do not get through --------------------------------------------------------------


async def test_a_rate_limit_is_waited_for_and_keeps_the_order(tmp_path: Path, chat: ChatPlatform) -> None:
    chat.fates = ["limited", "limited"]
    async with chatting(tmp_path, chat) as host:
        chat.say("twice")
        assert await chat.until(2) == ["once", "twice"]
        sent = await host.settled(2)
        assert [one.attempts for one in sent] == [1, 1], "a limit is no failed try"


async def test_a_refused_message_is_a_dead_letter_and_the_next_one_goes_on(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    chat.fates = ["refused"]
    async with chatting(tmp_path, chat) as host:
        chat.say("twice")
        assert await chat.until(1) == ["twice"]
        first, second = await host.settled(2)
        assert (first.status, first.error) == ("failed", "the bot may not speak here")
        assert second.status == "sent"
        await host.host.db.write(lambda tx: outbox.resend(tx, WORKSPACE, first.delivery_id))
        assert await chat.until(2) == ["twice", "once"]
        (again,) = [one for one in await host.settled(2) if one.delivery_id == first.delivery_id]
        assert (again.status, again.error, again.maybe_twice) == ("sent", None, False)


async def test_a_platform_that_is_down_gets_everything_later(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        chat.say("before")
        await chat.until(1)
        chat.on_request = lambda _: chat.cut()  # in the middle of what it is asked
        chat.say("during")
        await host.until(lambda: host.health("connecting", "failed"))
        chat.on_request = None
        await chat.stop()
        await host.until(lambda: host.health("failed"))
        await chat.start()
        assert await chat.until(2) == ["before", "during"]
        assert [one.status for one in await host.settled(2)] == ["sent", "sent"]


async def test_what_was_said_yesterday_is_not_sent_when_the_platform_is_back(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    chat.fates, chat.limit_seconds = ["limited"], 3_000.0
    async with chatting(tmp_path, chat) as host:
        chat.say("stale")
        await host.until(lambda: host.asked(1))
        text = "UPDATE outbox SET created_at = 0, due_at = 1 WHERE workspace_id = 'default'"
        await host.host.db.write(lambda tx: tx.run(Query("old", text, text)))
        (only,) = await host.settled(1)
        assert (only.status, only.error) == ("failed", "it could not be sent for a day")
        assert chat.by_bot() == []
        await host.host.db.write(lambda tx: outbox.resend(tx, WORKSPACE, only.delivery_id))
        assert await chat.until(1) == ["stale"], "an operator asked for it"


@pytest.mark.parametrize("fate", ["done and lost", "lost"])
@pytest.mark.parametrize("channel", ["keyed", "searched"])
async def test_a_lost_answer_is_settled_without_saying_it_twice(
    tmp_path: Path, chat: ChatPlatform, channel: str, fate: Fate
) -> None:
    chat.fates = [fate]
    async with chatting(tmp_path, chat, channel) as host:
        chat.say("twice")
        assert await chat.until(2) == ["once", "twice"]
        sent = await host.settled(2)
        assert [(one.status, one.maybe_twice) for one in sent] == [("sent", False)] * 2


@pytest.mark.parametrize("fate", ["done and lost", "lost"])
async def test_where_nobody_can_know_it_is_left_to_the_operator(
    tmp_path: Path, chat: ChatPlatform, fate: Fate
) -> None:
    chat.fates = [fate]
    async with chatting(tmp_path, chat, "blind") as host:
        chat.say("twice")
        first, second = await host.settled(2)
        assert (first.status, second.status) == ("in_doubt", "sent")
        assert "the plugin cannot tell whether the platform has got it: " in (first.error or "")
        assert "Error" in (first.error or ""), "it names what the plugin raised"
        done = ["once"] if fate == "done and lost" else []
        assert chat.by_bot() == [*done, "twice"]
        await host.host.db.write(lambda tx: outbox.resend(tx, WORKSPACE, first.delivery_id))
        assert await chat.until(len(done) + 2) == [*done, "twice", "once"]
        (again,) = [one for one in await host.settled(2) if one.delivery_id == first.delivery_id]
        assert (again.status, again.maybe_twice) == ("sent", True)


async def test_where_nobody_can_know_it_is_sent_again_and_marked_if_the_entry_says_so(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    chat.fates = ["done and lost"]
    async with chatting(tmp_path, chat, "blind", on_doubt="send_again") as host:
        chat.say("twice")
        assert await chat.until(3) == ["once", "once", "twice"]
        sent = await host.settled(2)
        assert [(one.status, one.maybe_twice) for one in sent] == [("sent", True), ("sent", False)]


# -- connections -----------------------------------------------------------------------------------


async def test_a_plugin_that_dies_is_started_and_its_channel_opened_again(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with chatting(tmp_path, chat) as host:
        chat.say("before")
        await chat.until(1)
        os.kill(host.plugin_pid(), signal.SIGKILL)
        chat.say("meanwhile")
        assert await chat.until(2) == ["before", "meanwhile"]
        assert chat.logins == 2


async def test_a_plugin_that_is_replaced_hands_its_channel_over(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        await host.connected()
        await host.host.supervisor.restart("test/wires")
        chat.say("hello")
        assert await chat.until(1) == ["hello"]
        assert (chat.logins, chat.bots) == (2, 1)


async def test_entries_are_changed_disabled_and_removed(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        await host.connected()
        entry = entry_for(chat.port, tmp_path / "token", block=ChannelAccess(people=["ann"]))
        await host.change(entry)
        await host.until(lambda: host.logins(2))
        chat.say("blocked")
        await host.until(lambda: host.ignored(1))
        await host.change(msgspec.structs.replace(entry, enabled=False))
        await host.until(lambda: host.bots(0))
        chat.say("heard later")
        await host.change(entry_for(chat.port, tmp_path / "token"))
        assert await chat.until(1) == ["heard later"]
        await host.host.remove_entry(ENTRY_KINDS["channels"], "chat", actor="test")
        await host.until(lambda: host.bots(0))


async def test_a_new_connection_is_made_on_request(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        await host.connected()
        await host.host.db.write(lambda tx: connections.request_restart(tx, WORKSPACE, "chat"))
        await host.until(lambda: host.logins(2))
        await host.connected()


async def test_a_wrong_secret_is_shown_and_its_change_heals_it(tmp_path: Path, chat: ChatPlatform) -> None:
    async with chatting(tmp_path, chat) as host:
        await host.connected()
        (tmp_path / "token").write_text("wrong")
        await host.host.db.write(lambda tx: connections.request_restart(tx, WORKSPACE, "chat"))
        failed = await host.until(lambda: host.health("failed"))
        assert failed.reason == "ConnectionError: wrong token"
        (tmp_path / "token").write_text(TOKEN)
        await host.host.db.write(lambda tx: connections.request_restart(tx, WORKSPACE, "chat"))
        await host.connected()


async def test_a_channel_goes_on_where_it_was_after_the_host_was_stopped(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    async with chatting(tmp_path, chat):
        chat.say("before")
        await chat.until(1)
    assert chat.bots == 0
    chat.say("meanwhile")
    async with chatting(tmp_path, chat) as host:
        assert await chat.until(2) == ["before", "meanwhile"]
        assert (await host.connection()).received == 2


async def test_what_waits_for_a_channel_that_is_removed_is_given_up(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    chat.fates, chat.limit_seconds = ["limited"], 3_000.0
    async with chatting(tmp_path, chat) as host:
        chat.say("hello")
        await host.until(lambda: host.asked(1))
        await host.host.remove_entry(ENTRY_KINDS["channels"], "chat", actor="test")
        (only,) = await host.settled(1)
        assert (only.status, only.error) == ("failed", "the channel was removed")


async def test_an_entry_that_cannot_be_read_keeps_what_waits_and_its_state(
    tmp_path: Path, chat: ChatPlatform
) -> None:
    chat.fates, chat.limit_seconds = ["limited"], 3_000.0
    async with chatting(tmp_path, chat) as host:
        chat.say("hello")
        await host.until(lambda: host.asked(1))
        db = host.host.db
        setting = await db.read(lambda tx: settings.get(tx, WORKSPACE, "channel", "chat"))
        unreadable = {**setting.spec, "of_a_newer_version": 1}
        await db.write(lambda tx: settings.put(tx, WORKSPACE, "channel", "chat", unreadable))
        agent = AgentSpec(name="echo", runner="plugin:test/wires/echo", priority=1)
        await host.host.apply(ConfigFile(agents=[agent]), actor="test")
        await host.until(lambda: host.bots(0))
        await host.until(lambda: _is_tidy(host))
        (waits,) = await host.outbox()
        assert (waits.status, (await host.connection()).state) == ("pending", 1)
        await host.change(entry_for(chat.port, tmp_path / "token"))
        await db.write(lambda tx: tx.run(DUE))
        assert await chat.until(1) == ["hello"]


async def _is_tidy(host: Chatting) -> bool:
    """Whether the host has looked for what is left of channels that are gone."""
    return host.host.channels._tidy
