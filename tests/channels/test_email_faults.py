"""Email: what breaks. Nothing is lost, and only what nobody can know comes twice."""

from __future__ import annotations

import asyncio
import signal

import pytest

from hostler_protocol.channels import (
    ChannelFound,
)
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
    RemoteFaultError,
    StorageError,
    to_fault,
)
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.email_desk import config_of, connected, desk, mail, serving
from support.email_server import NOW, PASSWORD, MailServer

__all__ = ["desk"]


ADA = "ada@example.com"


async def find(channel: OpenChannel, key: str, since: float = 0.0) -> ChannelFound:
    return await channel.find("hi", ADA, key=key, since=since)


def test_a_new_channel_is_connected_once_it_knows_where_it_begins(desk: ChannelDesk) -> None:
    """What comes before that place is not answered, so nobody may take it for connected before."""

    async def body(channel: OpenChannel, server: MailServer) -> None:
        told = [one.health for one in channel.ingest.health if one.channel_id == channel.channel_id]
        assert told == ["connecting", "failed", "connecting", "connected"]
        server.deliver(mail("hello"))
        assert (await channel.event()).text == "A question\n\nhello"

    def prepare(server: MailServer) -> None:
        server.fault("EXAMINE", "NO not now")

    connected(desk, body, prepare=prepare)


# -- sending --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "answer", "kind", "is_retryable", "told"),
    [
        ("GREETING", "554 5.3.2 go away", RemoteFaultError, True, "go away"),
        ("GREETING", "cut", RemoteFaultError, True, "SMTP server"),
        ("EHLO", "junk", RemoteFaultError, True, "SMTP server"),
        ("AUTH", "535 5.7.8 no", RemoteFaultError, True, "password"),
        ("AUTH", "454 4.7.0 later", RemoteFaultError, True, "later"),
        ("MAIL", "550 5.7.1 not you", InvalidArgumentError, False, "not you"),
        ("MAIL", "530 5.7.0 log in", RemoteFaultError, True, "log in"),
        ("MAIL", "421 4.3.0 closing", RemoteFaultError, True, "closing"),
        ("RCPT", "550 5.1.1 no such user", InvalidArgumentError, False, "no such user"),
        ("RCPT", "451 4.7.1 greylisted", RemoteFaultError, True, "greylisted"),
        ("RCPT", "cut", RemoteFaultError, True, "broke"),
        ("RCPT", "junk", RemoteFaultError, True, "SMTP server"),
        ("DATA", "cut", RemoteFaultError, True, "broke"),
        ("DATA", "452 4.3.1 full", RemoteFaultError, True, "full"),
        ("BODY", "cut", RemoteFaultError, True, "broke"),
        ("BEFORE", "554 5.7.1 spam", InvalidArgumentError, False, "spam"),
        ("BEFORE", "451 4.3.0 try again", RemoteFaultError, True, "try again"),
        ("BEFORE", "550 5.4.5 Daily user sending quota exceeded", RateLimitedError, True, "quota"),
    ],
)
def test_what_was_refused_before_its_end_was_not_sent(
    desk: ChannelDesk, command: str, answer: str, kind: type[Exception], is_retryable: bool, told: str
) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.fault(command, *[answer] * (2 if command == "AUTH" else 1))  # it is tried in two ways
        channel.ingest.files["big"] = bytes(9_000_000)
        big = ArtifactRef(artifact_id="big", name="big.bin")
        # more than connections hold, so that one that breaks within the mail breaks before its end
        files = [big] if command == "BODY" else []
        error = await refusal(channel.send("hello", ADA, attachments=files))
        assert isinstance(error, kind), error
        assert told in error.message
        assert PASSWORD not in error.message
        assert to_fault(error).retryable is is_retryable
        if isinstance(error, RateLimitedError):
            assert error.retry_after == 900
        assert server.sent == []
        sent = await channel.send("hello", ADA)
        assert sent.message_id is not None
        assert len(server.sent) == 1

    connected(desk, body)


@pytest.mark.parametrize("answer", ["cut", "junk", "354 what"])
def test_what_may_have_been_taken_is_in_doubt_and_looked_up(desk: ChannelDesk, answer: str) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.files_sent = True
        server.fault("AFTER", answer)
        assert (await channel.send("hi", ADA, key="a")).in_doubt
        found = await find(channel, "a")
        assert found.found is True
        assert found.message_id is not None
        assert found.message_id.encode() in server.sent[0].raw
        assert await find(channel, "b") == ChannelFound(found=False)  # the server files all that it got
        server.fault("SEARCH", "NO not now")
        assert await find(channel, "a") == ChannelFound()
        again = await channel.send("hi", ADA, key="a")
        assert again.message_id == found.message_id  # and so people's programs can tell

    connected(desk, body, sent_mails="server")


@pytest.mark.parametrize("sent_mails", ["append", "none"])
def test_that_a_mail_is_not_among_those_that_the_channel_files_proves_nothing(
    desk: ChannelDesk, sent_mails: str
) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.fault("AFTER", "cut")
        assert (await channel.send("hi", ADA, key="a")).in_doubt
        assert await find(channel, "a") == ChannelFound()
        await channel.send("hi", ADA, key="b")
        is_filed = sent_mails == "append"
        assert len(server.folders["Sent"].mails) == is_filed
        assert (await find(channel, "b")).found is (True if is_filed else None)

    connected(desk, body, sent_mails=sent_mails)


def test_a_mail_that_cannot_be_filed_was_sent_nevertheless(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.fault("APPEND", "NO [OVERQUOTA] full", "cut")
        for key in ("a", "b", "c"):
            assert (await channel.send("hi", ADA, key=key)).message_id is not None
        assert len(server.sent) == 3
        assert len(server.folders["Sent"].mails) == 1
        server.special.clear()
        del server.folders["Sent"]
        assert (await channel.send("hi", ADA, key="d")).message_id is not None

    connected(desk, body)


def test_a_mail_that_the_server_finds_too_large_is_not_begun(desk: ChannelDesk) -> None:
    server = MailServer()
    server.extensions[0] = "SIZE 20000"

    async def body(channel: OpenChannel, server: MailServer) -> None:
        error = await refusal(channel.send("word " * 8_000, ADA))
        assert isinstance(error, InvalidArgumentError)
        assert "larger than" in error.message
        assert "DATA" not in server.smtp_commands

    connected(desk, body, server=server)


# -- receiving ------------------------------------------------------------------------------------


def test_what_comes_while_the_server_is_away_comes_once_and_in_order(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        for number in range(9):
            server.deliver(mail(f"{number}", Message_ID=f"<{number}@example.com>"))
            if number == 2:
                server.cut()
            if number == 5:
                await server.stop()
                note = await channel.until_health("connecting")
                assert note.reason
                error = await refusal(channel.send("hello", ADA))
                assert isinstance(error, RemoteFaultError)  # certainly not sent
                await server.start()
        events = await channel.events(9)
        assert [event.message_id for event in events] == [f"<{number}@example.com>" for number in range(9)]
        await channel.until_health("connected")
        assert channel.ingest.duplicates == []
        await channel.send("here again", ADA)

    connected(desk, body)


@pytest.mark.parametrize("fault", ["junk", "cut", "NO not now", "BAD what"])
@pytest.mark.parametrize("command", ["FETCH", "SEARCH", "IDLE"])
def test_a_server_that_answers_nonsense_is_asked_again(desk: ChannelDesk, command: str, fault: str) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.fault(command, fault)
        server.deliver(mail())
        event = await channel.event()
        assert event.message_id == "<1@example.com>"
        if command == "IDLE":
            await channel.until_health("connecting")
            await channel.until_health("connected")
        server.deliver(mail(Message_ID="<2@example.com>"))
        assert (await channel.event()).message_id == "<2@example.com>"
        assert channel.ingest.duplicates == []

    connected(desk, body)


def test_a_folder_with_new_uids_is_looked_through_and_nothing_runs_twice(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        old, day = server.folders["INBOX"], 86_400
        server.deliver(mail(Message_ID="<1@example.com>"), NOW - 30 * day)
        server.deliver(mail(Message_ID="<2@example.com>"))
        await channel.events(2)
        new = server.folders["INBOX"] = type(old)(8)
        new.put(mail(Message_ID="<3@example.com>"), NOW + day)
        for one in reversed(old.mails):
            new.put(one.raw, one.received_at)
        server.cut()
        await channel.until(lambda: len(channel.ingest.events) + len(channel.ingest.duplicates) == 4)
        assert [event.message_id for event in channel.ingest.events] == [
            f"<{number}@example.com>" for number in (1, 2, 3)
        ]
        assert [event.message_id for event in channel.ingest.duplicates] == ["<2@example.com>"]
        server.deliver(mail(Message_ID="<4@example.com>"))
        await channel.until(lambda: len(channel.ingest.events) == 4)
        assert channel.state == {"uidvalidity": 8, "uid": 4, "since": NOW + day}

    connected(desk, body)


def test_a_mail_that_is_gone_before_it_is_read_holds_up_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.fault("FETCH", "OK nothing")
        server.deliver(mail())
        server.deliver(mail(Message_ID="<2@example.com>"))
        assert (await channel.event()).message_id == "<2@example.com>"

    connected(desk, body)


def test_a_mail_that_the_host_refuses_comes_bare_or_holds_up_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        no = InvalidArgumentError("too much data")
        channel.ingest.refusals = [no, no, no]
        server.deliver(mail())
        server.deliver(mail(Message_ID="<2@example.com>"))
        event = await channel.event()
        assert (event.message_id, event.data) == ("<2@example.com>", {"left_out": "too much data"})
        assert channel.state["uid"] == 2

    connected(desk, body)


def test_a_bomb_holds_up_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.deliver(mail(b"Content-Type: message/rfc822\r\n\r\n" * 5_000 + b"x"))
        server.deliver(mail(b"X-A: y\r\n" * 200_000, Message_ID="<2@example.com>"))
        server.deliver(mail("me, too", Message_ID="<3@example.com>"))
        events = await channel.events(3)
        kinds = ["platform.unreadable_mail", "platform.unreadable_mail", "message.received"]
        assert [event.event_type for event in events] == kinds
        assert events[0].data["problems"]

    connected(desk, body)


def test_a_mail_that_is_too_large_is_read_as_far_as_it_is_fetched(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.deliver(mail("x" * 79 + "\n" + ("y" * 79 + "\n") * 20_000))
        event = await channel.event()
        assert event.data["mail"]["size_bytes"] > 1_600_000
        assert any("larger than what is fetched" in one for one in event.data["problems"])
        fetched = [one for one in server.commands if one == "FETCH"]
        assert len(fetched) == 1

    connected(desk, body, max_mail_mib=1)


# -- death ----------------------------------------------------------------------------------------


def test_a_death_between_receiving_and_delivering_loses_nothing(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            async with desk.alone(config_of(server)) as channel:
                await channel.until_health("connected")
                await server.until_idle()
                channel.ingest.refusals = [StorageError("the disk is full") for _ in range(1000)]
                server.deliver(mail("do not lose me"))
                server.deliver(mail("nor me", Message_ID="<2@example.com>"))
                await channel.until(lambda: len(channel.ingest.refusals) < 1000)
                channel.plugin.signal(signal.SIGKILL)
                await channel.plugin.exit_status()
                assert channel.ingest.events == []
                state, ingest = channel.state, channel.ingest
            ingest.refusals.clear()
            async with desk.alone(config_of(server), state=state) as channel:
                events = await channel.events(2)
                assert [event.message_id for event in events] == ["<1@example.com>", "<2@example.com>"]
                ingest = channel.ingest
                channel.plugin.signal(signal.SIGKILL)  # durable; the position of both is lost
                await channel.plugin.exit_status()
            async with desk.alone(config_of(server), state=state) as channel:
                channel.plugin.session.ingest = channel.ingest = ingest
                await channel.until(lambda: len(ingest.duplicates) == 2)
                assert len(ingest.events) == 2

    desk.run(whole)


def test_a_death_between_sending_and_the_answer_is_settled_by_the_folder(desk: ChannelDesk) -> None:
    async def whole() -> None:
        async with serving() as server:
            server.files_sent = True
            config = config_of(server, **{"sent-mails": "server"})
            async with desk.alone(config) as channel:
                await channel.until_health("connected")
                server.fault("AFTER", "stall")
                sending = asyncio.ensure_future(channel.send("hi", ADA, key="a"))
                await server.stalled.wait()
                channel.plugin.signal(signal.SIGKILL)
                with pytest.raises(HostlerError):
                    await sending
            async with desk.alone(config) as channel:
                await channel.until_health("connected")
                assert (await find(channel, "a")).found is True
                assert (await find(channel, "never sent")).found is False
                assert len(server.sent) == 1

    desk.run(whole)
