"""LINE: what breaks. No message is lost, and none comes twice."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from hostler_protocol.channels import (
    ChannelFound,
    ChannelSent,
)
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
    RemoteFaultError,
    StorageError,
)
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.child_plugins import environment, within
from support.line_desk import FOLDER, config_of, connected, deliver, desk, serving
from support.line_server import ADA, GROUP, Answer, LineServer, limited
from support.ready_candidates import check_folder

__all__ = ["desk"]


async def send(channel: OpenChannel, text: str, *, attempt: int, key: str = "k") -> ChannelSent:
    """Send a message to Ada, as the host does in a further try."""
    return await channel.send(text, ADA, key=key, attempt=attempt)


async def find(
    channel: OpenChannel, text: str, *, key: str = "k", since: float | None = None
) -> ChannelFound:
    return await channel.find(text, ADA, key=key, since=since)


# -- pushes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["cut", "lost", 500, 502])
def test_a_push_in_doubt_is_sent_again_under_its_key(desk: ChannelDesk, broken: Any) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.answers["push"] = [broken]
        sent = await channel.send("once", ADA)
        assert (sent.in_doubt, bool(sent.reason)) == (True, True)
        assert (await find(channel, "once")).found is False
        again = await send(channel, "once", attempt=2)
        assert (again.in_doubt, again.message_id) == (False, server.sent[0]["id"])
        assert server.texts() == ["once"]
        first, second = server.called("/push")
        assert first.headers["X-Line-Retry-Key"] == second.headers["X-Line-Retry-Key"]
        assert first.body == second.body
        await channel.send("another", ADA, key="k2")
        assert server.called("/push")[2].headers["X-Line-Retry-Key"] != first.headers["X-Line-Retry-Key"]

    connected(desk, body)


def test_after_a_day_line_does_not_know_the_key_any_more(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        assert (await find(channel, "x", since=time.time() - 24 * 3600)).found is None

    connected(desk, body)


def test_a_page_of_a_proxy_is_no_answer(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.answers["push"] = [200, 302, 418]
        assert (await channel.send("1", ADA, key="1")).in_doubt
        for key in ("2", "3"):
            assert await refusal(channel.send("2", ADA, key=key))
        assert server.sent == []

    connected(desk, body)


def test_limits_are_told_with_their_time_and_the_month_is_final(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.answers["push"] = [limited("3"), limited("soon"), limited(monthly=True)]
        errors = [await refusal(channel.send("hello", ADA)) for _ in range(3)]
        assert isinstance(errors[0], RateLimitedError)
        assert isinstance(errors[1], RateLimitedError)
        assert (errors[0].retry_after, errors[1].retry_after) == (3.0, 10.0)
        assert isinstance(errors[2], InvalidArgumentError)  # a dead letter: replies, which are free, go on
        assert "monthly limit" in errors[2].message
        await deliver(channel, server, server.message(text="and now?"))
        await channel.send("a reply", ADA, key="k2")
        assert server.texts() == ["a reply"]

    connected(desk, body)


def test_a_line_that_is_away_has_certainly_got_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="hello"))
        await server.stop()
        for attempt in (1, 2):
            error = await refusal(send(channel, "hello", attempt=attempt))
            assert isinstance(error, RemoteFaultError)
            assert error.fault.retryable
            assert "cannot be reached" in error.message
        await server.start()
        await send(channel, "hello", attempt=3)
        assert server.texts() == ["hello"]

    connected(desk, body)


def test_a_token_that_line_does_not_know_any_more_is_named(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        server.token = "another"
        error = await refusal(channel.send("hello", ADA))
        assert isinstance(error, RemoteFaultError)
        assert "check `token`" in error.message
        assert "long/lived" not in error.message
        server.token = "long/lived+token="
        assert await send(channel, "hello", attempt=2)

    connected(desk, body)


# -- replies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["cut", "lost"])
def test_a_reply_in_doubt_is_tried_once_more_by_its_token(desk: ChannelDesk, broken: str) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="hello"))
        server.answers["reply"] = [broken]
        assert (await channel.send("once", ADA)).in_doubt
        server.answers["reply"] = [503, limited()]
        for _ in range(2):
            assert await refusal(find(channel, "once"))  # the host asks again later
        assert (await find(channel, "once")).found is True
        assert server.texts() == ["once"]
        assert len({call.body["replyToken"] for call in server.called("/reply")}) == 1
        assert server.called("/push") == []
        assert (await find(channel, "once")).found is True  # as by a host that died meanwhile

    connected(desk, body)


def test_a_death_before_an_event_is_stored_leaves_it_to_line(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            said = server.message("file", id="1", fileName="a.txt", fileSize=1)
            server.files["1"] = b"x"
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                server.answers["content"] = ["held"]
                asked = asyncio.ensure_future(deliver(channel, server, said))
                await server.until_called("/content")
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                assert (asked.done() and not asked.exception(), channel.ingest.events) == (False, [])
                asked.cancel()
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                again = said | {"deliveryContext": {"isRedelivery": True}}
                assert await deliver(channel, server, again) == 200
                assert (await channel.event()).attachments[0].name == "a.txt"

    desk.run(whole)


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_process_that_dies_while_it_replies_is_followed_by_one_that_finds_out(
    desk: ChannelDesk, was_sent: bool
) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                await deliver(channel, server, server.message(text="hello"))
                server.answers["reply"] = [] if was_sent else ["held"]
                server.silent = "reply"
                sending = asyncio.ensure_future(channel.send("once", ADA))
                await server.until_called("/reply")
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                sending.cancel()
                state = channel.state
            server.silent = None
            state["replies"]["k"][1] = time.time()  # however long this took: it is fresh
            async with desk.opened(config_of(server), state=state) as channel:
                await channel.until_health("connected")
                assert (await find(channel, "once")).found is True
                assert server.texts() == ["once"]
            for minutes in (1, 60):  # long after that nobody can know, and the channel's entry decides
                state["replies"]["k"][1] = time.time() - minutes * 60
                async with desk.opened(config_of(server), state=state) as channel:
                    await channel.until_health("connected")
                    assert (await find(channel, "once")).found is None
                    assert (await send(channel, "once more", attempt=2)).message_id
            assert server.texts() == ["once", "once more"]

    desk.run(whole)


def test_a_refused_token_is_followed_by_a_push_which_a_next_process_does_not_mistake(
    desk: ChannelDesk,
) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="hello"))
        server.ids_of_tokens.clear()
        server.answers["push"] = ["lost"]
        assert (await channel.send("hello", ADA)).in_doubt
        assert channel.state["replies"] == {}
        assert (await find(channel, "hello")).found is False
        await send(channel, "hello", attempt=2)
        assert server.texts() == ["hello"]

    connected(desk, body)


def test_a_push_after_a_refused_reply_is_never_followed_by_that_reply(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.opened(config_of(server)) as channel:
                await channel.until_health("connected")
                await deliver(channel, server, server.message(text="hello"))
                server.answers["reply"] = [limited("2")]
                server.answers["push"] = ["cut"]
                assert isinstance(await refusal(channel.send("hello", ADA)), RateLimitedError)
                kept = channel.state
                assert (await send(channel, "hello", attempt=2)).in_doubt
                state = channel.state
            async with desk.opened(config_of(server), state=state) as channel:  # a next process
                await channel.until_health("connected")
                assert (await find(channel, "hello")).found is False
                await send(channel, "hello", attempt=3)
            assert server.texts() == ["hello"]
            assert len(server.called("/push")) == 2
            async with desk.opened(config_of(server), state=kept) as channel:  # which died before the push
                await channel.until_health("connected")
                await send(channel, "hello", attempt=2)
            assert server.texts() == ["hello"]

    desk.run(whole)


def test_a_reply_that_line_refuses_for_good_is_told_by_a_push(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="hello"))
        server.answers["reply"] = ["lost"]
        assert (await channel.send("hello", ADA)).in_doubt
        no: Answer = (403, {"message": "Access to this API is not available for your account"}, {})
        server.answers["reply"], server.answers["push"] = [no], [no]
        assert (await find(channel, "hello")).found is False
        assert "not available" in (await refusal(send(channel, "hello", attempt=2))).message
        assert channel.state["replies"] == {}

    connected(desk, body)


def test_while_nothing_can_be_kept_messages_are_pushed(desk: ChannelDesk) -> None:
    """As with more replies in doubt than the channel keeps."""

    async def body(channel: OpenChannel, server: LineServer) -> None:
        await deliver(channel, server, server.message(text="hello"))
        await channel.send("hello", ADA)
        assert (len(server.called("/push")), server.called("/reply")) == (1, [])
        assert (await find(channel, "?", key="r7")).found is None

    replies = {f"r{number}": [f"{number:032x}", time.time() - 3_600, None, False] for number in range(200)}
    connected(desk, body, state={"replies": replies, "sent": ["1", 2]})


@pytest.mark.parametrize("state", [7, [], {"replies": 1, "sent": {}}, {"replies": {"k": [1, 2]}}])
def test_a_state_of_another_kind_is_none(desk: ChannelDesk, state: Any) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        await channel.send("hello", ADA)
        assert (await find(channel, "?", key="k")).found is False

    connected(desk, body, state=state)


# -- what comes -----------------------------------------------------------------------------------


def test_what_line_sends_again_is_one_event(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        said = server.message(text="hello")
        again = said | {"deliveryContext": {"isRedelivery": True}}
        assert await deliver(channel, server, said) == 200
        assert await deliver(channel, server, again, server.message(text="and more")) == 200
        assert [one.text for one in channel.ingest.events] == ["hello", "and more"]
        assert [one.text for one in channel.ingest.duplicates] == ["hello"]
        assert len(server.called("/reply")) == 0

    connected(desk, body)


def test_line_is_answered_once_the_host_has_stored_it(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        channel.ingest.refusals = [StorageError("the disk is full"), StorageError("the disk is full")]
        events = [server.message(text=str(number)) for number in range(3)]
        assert await deliver(channel, server, *events) == 200
        assert channel.ingest.refusals == []
        assert [one.text for one in channel.ingest.events] == ["0", "1", "2"]

    connected(desk, body)


def test_what_the_host_refuses_comes_bare_and_holds_up_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: LineServer) -> None:
        refusals: list[HostlerError] = [InvalidArgumentError("data: too large") for _ in range(3)]
        channel.ingest.refusals = refusals[:1]
        pressed = server.event("postback", postback={"data": "q:1:0"})
        assert await deliver(channel, server, pressed) == 200
        channel.ingest.refusals = refusals[1:]
        assert await deliver(channel, server, server.message(text="lost")) == 200
        assert await deliver(channel, server, server.message(text="next")) == 200
        press, following = channel.ingest.events
        assert press.data == {"value": "q:1:0", "left_out": "data: too large"}
        assert following.text == "next"

    connected(desk, body)


def test_a_closed_channel_says_that_nothing_was_sent_and_is_called_again_later(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.answers["info"] = [503, limited()]
            async with desk.opened(config_of(server)) as channel:
                assert "LINE has an error" in (await channel.until_health("failed")).reason
                error = await refusal(channel.send("hello", ADA))
                assert isinstance(error, RemoteFaultError)
                assert await refusal(channel.request(**server.webhook(server.message(text="x"))))
                await channel.until_health("connected")
                assert await deliver(channel, server, server.message(text="again")) == 200
                await channel.send("hello", GROUP)

    desk.run(whole)


def test_it_keeps_the_rules_of_channels() -> None:
    async def whole() -> None:
        results = await check_folder(FOLDER, environment())
        assert [result for result in results if not result.ok] == []
        assert [result.name for result in results if result.left_out and "channel" in result.name] == []

    within(200, whole)
