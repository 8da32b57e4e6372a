"""WeCom: what it refuses, what is unclear, and what a channel needs to begin."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hostler_wecom.throttle import Throttle

from hostler_protocol.errors import HostlerError, InvalidArgumentError, RateLimitedError, RemoteFaultError
from hostler_sdk.channels import NotSent
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.wecom_desk import config_of, connected, desk, find, serving
from support.wecom_envelopes import AGENT
from support.wecom_server import SECRET, WecomServer, refused

__all__ = ["desk"]


HOURS = 3_600.0


# -- refusals -------------------------------------------------------------------------------------


def test_a_refusal_is_told_as_what_it_is(desk: ChannelDesk) -> None:
    unlicensed = {"errcode": 0, "errmsg": "ok", "unlicenseduser": "ada", "msgid": "m"}
    refusals: list[tuple[Any, type[HostlerError], str]] = [
        (refused(45009), RateLimitedError, "limits the rate"),
        (refused(45033), RateLimitedError, "limits the rate"),
        (refused(6000, "data version conflict"), RemoteFaultError, "6000"),
        (refused(60020, "not allow to access from your ip"), RemoteFaultError, "trusted IPs"),
        (refused(301002), RemoteFaultError, "agent-id"),
        (refused(81013), InvalidArgumentError, "no such member"),
        (refused(45002, "content size out of limit"), InvalidArgumentError, "45002"),
        (unlicensed, InvalidArgumentError, "licence"),
    ]

    async def body(channel: OpenChannel, server: WecomServer) -> None:
        for answer, kind, told in refusals:
            server.answers["message/send"] = [answer]
            error = await refusal(channel.send("x", "ada"))
            assert isinstance(error, kind), answer
            assert told in error.message
        assert server.delivered == []

    connected(desk, body)


@pytest.mark.parametrize("answer", [refused(-1, "system busy"), {"error": "of a proxy"}, 502, "page", "cut"])
def test_what_is_unclear_is_sent_again_within_hours_and_comes_once(desk: ChannelDesk, answer: Any) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.answers["message/send"] = [answer]
        sent = await channel.send("once", "ada")
        assert (sent.in_doubt, SECRET in sent.reason, "token-" in sent.reason) == (True, False, False)
        assert (await find(channel, time.time() - 3 * HOURS)).found is False
        assert (await find(channel, time.time() - 4 * HOURS)).found is None
        await channel.send("once", "ada")
        assert server.texts() == ["once"]

    connected(desk, body)


def test_what_is_no_member_gets_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        for chat in ("@all", "ada|bob", "-ada", "a" * 65, "漢", "ada\n"):
            error = await refusal(channel.send("x", chat))
            assert "no id of a member" in error.message
        assert isinstance(await refusal(channel.send("  ", "ada")), InvalidArgumentError)
        assert server.called("message/send") == []

    connected(desk, body)


def test_what_wecom_would_drop_in_silence_waits() -> None:
    now = 1_000.0
    throttle = Throttle(lambda: now)

    def wait(user: str = "ada") -> float:
        """Send as many as are let through; return how long the next one waits, and how many there were."""
        while True:
            try:
                throttle.take(user)
            except NotSent as later:
                return -1 if later.final or later.retry_after is None else later.retry_after
            sent.append(user)

    sent: list[str] = []
    assert (wait(), len(sent)) == (65, 15), "what an earlier process sent is not known"
    now += 64
    assert (wait(), len(sent)) == (1, 15)
    assert wait("bob") == 65
    now += 1
    assert (wait(), sent.count("ada")) == (65, 45)
    while now < 1_000 + 3_500:
        now += 65
        wait()
    assert sent.count("ada") == 1_000
    assert wait() > 0
    now += 3_700
    assert (wait(), sent.count("ada")) == (65, 1_030)


# -- the access token -----------------------------------------------------------------------------


def test_a_token_is_asked_for_once_and_again_when_it_has_expired(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        for number in range(3):
            await channel.send("x", "ada", key=str(number))
        assert len(server.called("gettoken")) == 1
        server.expire()
        await channel.send("y", "ada", key="y")
        assert len(server.called("gettoken")) == 2
        server.answers["message/send"] = [refused(42001, "access_token expired")]
        server.token_again = True  # as WeCom gives the same one while it is valid
        await channel.send("z", "ada", key="z")
        assert server.texts() == ["x", "x", "x", "y", "z"]
        server.answers["message/send"] = [refused(40014), refused(40014)]
        assert isinstance(await refusal(channel.send("!", "ada", key="!")), RemoteFaultError)

    connected(desk, body)


def test_a_token_that_lasts_for_moments_is_used_all_the_same(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        await channel.send("x", "ada")
        assert server.texts() == ["x"]

    def prepared(server: WecomServer) -> None:
        server.lasts = 0

    connected(desk, body, prepare=prepared)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"secret": "wrong"}, "check `secret`"),
        ({"corp-id": "ww1"}, "check `corp-id`"),
        ({"agent-id": 0}, "`agent-id` must be"),
        ({"callback-aes-key": "short"}, "43 letters"),
        ({"callback-token": ""}, "`callback-token` is missing"),
        ({"base-url": "ftp://x"}, "`base-url`"),
        ({"base-url": "http://127.0.0.1:1"}, "cannot be reached"),
        ({"max-file-mib": 101}, "`max-file-mib`"),
    ],
)
def test_settings_that_cannot_work_are_named(desk: ChannelDesk, settings: dict[str, Any], told: str) -> None:
    async def body() -> None:
        async with serving() as server, desk.opened(config_of(server) | settings) as channel:
            health = await channel.until_health("failed")
            assert told in health.reason
            assert SECRET not in health.reason

    desk.run(body)


def test_it_is_open_before_its_address_is_trusted(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, _: WecomServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        assert (channel.health.account.person_id, channel.health.account.name) == (f"app:{AGENT}", None)

    def prepared(server: WecomServer) -> None:
        server.answers["agent/get"] = [refused(60020)]

    connected(desk, body, prepare=prepared)


# -- actions --------------------------------------------------------------------------------------


def test_actions(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        target = {"chat_id": "ada"}
        await channel.act("message.delete", target | {"message_id": "msg-1|msg-2"})
        assert server.recalled == ["msg-1", "msg-2"]
        info = await channel.act("member.info", target | {"person_id": "ada"})
        assert info.result == {"name": "Ada 李"}
        posted = await channel.act("platform.call", {}, method="appchat/create", params={"name": "n"})
        assert (posted.result["called"], posted.result["by"]) == ("appchat/create", "POST")
        assert server.called("appchat/create")[0].body == {"name": "n"}
        got = await channel.act(
            "platform.call", {}, method="GET department/list", params={"id": 1, "body": "b"}
        )
        assert got.result["by"] == "GET"
        assert {"id": "1", "body": "b"}.items() <= server.called("department/list")[0].query.items()
        for payload, told in (
            ({}, "is no method"),
            ({"method": "../x"}, "is no method"),
            ({"method": "a?access_token=b"}, "is no method"),
            ({"method": "gettoken"}, "not called for others"),
            ({"method": "media/get"}, "not called for others"),
            ({"method": "user/get", "params": []}, "must be an object"),
            ({"method": "user/get", "params": {"access_token": "t"}}, "must not name a token"),
            ({"method": "GET user/get", "params": {"a": {}}}, "texts and numbers"),
        ):
            assert told in (await refusal(channel.act("platform.call", {}, **payload))).message
        assert "message_id" in (await refusal(channel.act("message.delete", target))).message
        assert (
            "no id of a member" in (await refusal(channel.act("member.info", {"person_id": "@all"}))).message
        )
        unknown = await refusal(channel.act("member.info", {"person_id": "eve"}))
        assert isinstance(unknown, InvalidArgumentError)

    connected(desk, body)
