"""Telegram: what breaks. Nothing is lost, and only what nobody can know comes twice."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from typing import Any

import pytest

from hostler_protocol.channels import ChannelResponse, ChannelSent
from hostler_protocol.errors import HostlerError, RemoteFaultError, StorageError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.child_plugins import environment, within
from support.ready_candidates import check_folder
from support.telegram_desk import FOLDER, config_of, connected, desk, serving
from support.telegram_server import GROUP, PRIVATE, TOKEN, Refusal, TelegramServer

__all__ = ["desk"]

SECRET = "a-secret_of-16-or-more"
NONSENSE: list[Any] = [b"", b"{", b"[]", b"\xff", {"update_id": "9"}, {"message": {}}]
HOOK = {"receive": "webhook", "webhook-url": "https://bots.example/c/telegram", "webhook-secret": SECRET}


# -- the connection -------------------------------------------------------------------------------


def test_what_is_said_while_telegram_is_away_comes_once_and_in_order(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        for number in range(12):
            server.say(f"number {number}")
            if number % 5 == 2:
                server.cut()
            if number == 6:
                await server.stop()
                note = await channel.until_health("connecting")
                assert note.reason
                error = await refusal(channel.send("hello"))
                assert isinstance(error, RemoteFaultError)  # certainly not sent
                await server.start()
                await channel.until_health("connected")
        events = await channel.events(12)
        assert [event.text for event in events] == [f"number {number}" for number in range(12)]
        await channel.send("here again")

    connected(desk, body)


def test_a_reconnection_is_told_although_nobody_writes(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: TelegramServer) -> None:
        await server.until_polled()
        server.refusals["getUpdates"] = [
            Refusal(502, "Bad Gateway"),
            Refusal(429, "Too Many Requests: retry after 1", retry_after=1),
            Refusal(409, "Conflict: terminated by other getUpdates request"),
        ]
        server.cut()
        await channel.until(lambda: server.refusals["getUpdates"] == [])
        await channel.until_health("connected")
        told = [(note.health, note.reason) for note in channel.ingest.health]
        reasons = " ".join(reason for _, reason in told)
        assert "other getUpdates request" in reasons
        assert "rate" in reasons
        assert server.waits[1:5] == [0, 0, 0, 0]  # so that the first success is told at once

    connected(desk, body)


def test_a_wrong_token_is_told_and_a_right_one_taken_again(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server)
            server.token = "4242:another"
            async with desk.opened(config) as channel:
                note = await channel.until_health("failed")
                assert "check `token`" in note.reason
                assert isinstance(await refusal(channel.send("hi")), RemoteFaultError)
                server.token = TOKEN
                await channel.until_health("connected")
                server.token = "4242:revoked"
                server.cut()
                note = await channel.until_health("failed")
                assert "check `token`" in note.reason
                server.token = TOKEN
                await channel.until_health("connected")

    desk.run(whole)


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("token", "x", "no token of a bot"),
        ("base-url", "api.telegram.org", "https://"),
        ("max-file-mib", 500, "from 0 to 100"),
        ("receive", "webhook", "`webhook-url` must be"),
    ],
)
def test_a_setting_that_cannot_work_is_named(desk: ChannelDesk, setting: str, value: Any, told: str) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server) | {setting: value}) as channel:
            note = await channel.until_health("failed")
            assert told in note.reason
            assert TOKEN not in note.reason

    desk.run(whole)


def test_the_token_is_in_no_message_and_no_log(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server, desk.alone(config_of(server)) as channel:
            await channel.until_health("connected")
            server.files["F"] = b"x"
            server.broken_files["F"] = [500, 500, "cut"]
            server.say(document={"file_id": "F", "file_unique_id": "u"})
            await channel.event()
            server.refusals["sendMessage"] = ["cut", "<html>", Refusal(500, "Internal Server Error")]
            for key in ("a", "b", "c"):
                assert (await channel.send("hi", key=key)).in_doubt
            server.cut()
            await server.stop()
            await channel.until_health("connecting")
            said = json.dumps(channel.plugin.frames) + channel.plugin._stderr_tail.decode()
            assert "UnclearError: Telegram has an error" in said  # of the log the end alone is kept
            assert TOKEN not in said

    within(200, whole)


def test_it_reaches_telegram_through_the_proxy_of_its_sandbox(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            config = config_of(server) | {"base-url": "http://api.telegram.invalid"}
            proxy = {"HTTP_PROXY": server.url, "http_proxy": server.url, "NO_PROXY": "", "no_proxy": ""}
            async with desk.alone(config, **proxy) as channel:
                await channel.until_health("connected")
                server.files["F"] = b"x"
                server.say(document={"file_id": "F", "file_unique_id": "u"})
                assert len((await channel.event()).attachments) == 1
                await channel.send("hello")

    desk.run(whole)


# -- redelivery and death -------------------------------------------------------------------------


def test_an_update_that_was_not_confirmed_comes_again_and_starts_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.say("once")
            server.press(5, "yes")
            async with desk.alone(config_of(server)) as channel:
                await channel.events(2)
                first, ingest = channel, channel.ingest
                state = first.state
                channel.plugin.signal(signal.SIGKILL)  # durable here; Telegram may or may not know
                await channel.plugin.exit_status()
            server.update_again()
            async with desk.alone(config_of(server)) as channel:  # its state is lost, too
                channel.plugin.session.ingest = channel.ingest = ingest
                await channel.until(lambda: len(ingest.duplicates) == 2)
                assert len(ingest.events) == 2
                assert first.state == state
            server.update_again()
            async with desk.alone(config_of(server), state=state) as channel:
                await channel.until_health("connected")
                server.say("and now")
                assert (await channel.event()).text == "and now"

    desk.run(whole)


def test_a_death_between_receiving_and_delivering_loses_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                channel.ingest.refusals = [StorageError("the disk is full") for _ in range(1000)]
                server.say("do not lose me")
                server.say("nor me")
                await channel.until(lambda: len(channel.ingest.refusals) < 1000)
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                assert channel.ingest.events == []
                state = channel.state
            async with desk.alone(config_of(server), state=state) as channel:
                events = await channel.events(2)
                assert [event.text for event in events] == ["do not lose me", "nor me"]
                await server.until_confirmed()

    desk.run(whole)


def test_a_death_between_sending_and_the_answer_leaves_it_to_the_host(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                server.silent = True
                sending = asyncio.ensure_future(channel.send("perhaps twice"))
                await server.until("sendMessage")
                channel.plugin.signal(signal.SIGKILL)
                with pytest.raises(HostlerError):
                    await sending
                server.silent = False
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                # Telegram has no id of the sender's: whether it is sent again is the operator's choice
                assert await channel.send("perhaps twice") == ChannelSent(
                    message_id=str(max(server.messages))
                )
                assert server.texts() == ["perhaps twice", "perhaps twice"]

    desk.run(whole)


# -- webhook --------------------------------------------------------------------------------------


async def hook(
    channel: OpenChannel, body: Any, *, secret: str | None = SECRET, **more: Any
) -> ChannelResponse:
    headers = {} if secret is None else {"x-telegram-bot-api-secret-token": secret}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    whole = {"method": "POST", "headers": headers, "body_base64": base64.b64encode(content).decode(), **more}
    return await channel.request(**whole)


def test_a_webhook_is_set_and_only_telegram_is_heard(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.opened(config_of(server) | HOOK) as channel:
                await channel.until_health("connected")
                assert server.webhook is not None
                assert (server.webhook["url"], server.webhook["secret_token"]) == (
                    HOOK["webhook-url"],
                    SECRET,
                )
                assert "chat_member" in json.loads(server.webhook["allowed_updates"])
                message = {
                    "message_id": 5,
                    "from": {"id": 7, "is_bot": False, "first_name": "A"},
                    "chat": PRIVATE,
                }
                update = {"update_id": 9, "message": {**message, "date": 1, "text": "hello"}}
                for wrong in (None, "", SECRET[:-1], SECRET + "x", "ÿ"):
                    assert (await hook(channel, update, secret=wrong)).status == 401
                assert (await hook(channel, update, method="GET")).status == 405
                for nonsense in NONSENSE:
                    assert (await hook(channel, nonsense)).status == 400
                assert channel.ingest.events == []
                assert (await hook(channel, update)).status == 200
                assert (await hook(channel, update)).status == 200  # Telegram asks again
                event = await channel.event()
                assert (event.text, event.event_id) == ("hello", "9:5")
                assert len(channel.ingest.duplicates) == 1
                channel.ingest.notice = "Only Grace may decide"
                press = {
                    "id": "31",
                    "from": message["from"],
                    "message": {**message, "chat": GROUP, "date": 1},
                }
                server.presses.add("31")
                update = {"update_id": 10, "callback_query": {**press, "chat_instance": "1", "data": "yes"}}
                assert (await hook(channel, update)).status == 200
                assert server.called("answerCallbackQuery")[0].params["text"] == "Only Grace may decide"
                assert server.waits == []
            async with desk.opened(config_of(server)) as channel:  # it polls again
                await channel.until_health("connected")
                assert server.called("deleteWebhook")[0].params["drop_pending_updates"] == "false"
                assert (await hook(channel, update)).status == 404

    desk.run(whole)


def test_a_call_of_the_webhook_is_answered_once_its_event_is_durable(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server, desk.opened(config_of(server) | HOOK) as channel:
            await channel.until_health("connected")
            channel.ingest.refusals = [StorageError("the disk is full")]
            message = {
                "message_id": 5,
                "from": {"id": 7, "is_bot": False, "first_name": "A"},
                "chat": PRIVATE,
            }
            calling = asyncio.ensure_future(
                hook(channel, {"update_id": 9, "message": {**message, "date": 1, "text": "kept"}})
            )
            await channel.until(lambda: channel.ingest.refusals == [])
            assert [one for one in (calling,) if one.done()] == []
            assert (await calling).status == 200
            assert (await channel.event()).text == "kept"

    desk.run(whole)


@pytest.mark.parametrize("secret", ["", "short", "x" * 257, "sixteen chars!!!!"])
def test_a_webhook_without_a_good_secret_is_not_set(desk: ChannelDesk, secret: str) -> None:
    async def whole() -> None:
        config = HOOK | {"webhook-secret": secret}
        async with serving() as server, desk.opened(config_of(server) | config) as channel:
            note = await channel.until_health("failed")
            assert "16 to 256" in note.reason
            assert server.webhook is None
            assert isinstance(await refusal(hook(channel, {})), RemoteFaultError)

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)
