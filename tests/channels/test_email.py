"""Email: mails both ways, through the real libraries in a real process, on a server of both wires."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hostler_protocol.channels import ChannelEvent
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.email_desk import connected, content_of, desk, mail, read
from support.email_server import NOW, MailServer

__all__ = ["desk"]

OWN = re.compile(r"<hostler\.([0-9a-f]{32})\.([0-9a-f]{32})@example\.org>")


def place(event: ChannelEvent) -> tuple[str, str | None]:
    assert event.chat is not None
    return event.chat.chat_id, event.chat.thread_id


# -- in -------------------------------------------------------------------------------------------


def test_a_mail_comes_in_with_who_and_what_and_stays_unread(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        assert channel.health is not None
        assert channel.health.account is not None
        assert (channel.health.account.person_id, channel.health.account.name) == ("help@example.org", "Help")
        uid = server.deliver(mail("Does it rain? 漢字 👋\n-- \nAda", Cc="Bob <bob@example.com>"))
        event = await channel.event()
        assert (event.event_type, event.source_event_type) == ("message.received", "mail")
        assert event.text == "A question\n\nDoes it rain? 漢字 👋\n-- \nAda"
        assert (event.message_id, event.reply_to, event.event_time) == ("<1@example.com>", None, NOW)
        assert event.person is not None
        assert (event.person.person_id, event.person.name, event.person.is_bot) == (
            "ada@example.com",
            "Ada L.",
            False,
        )
        assert event.chat is not None
        assert (event.chat.chat_id, event.chat.kind) == ("ada@example.com", "private")
        assert event.addressed == ["mention"]
        told = event.data["mail"]
        assert (told["subject"], told["to"], told["cc"]) == (
            "A question",
            ["help@example.org"],
            ["bob@example.com"],
        )
        assert channel.state == {"uidvalidity": 7, "uid": uid, "since": NOW}
        assert server.folders["INBOX"].mails[0].flags == set()
        assert "SELECT" not in server.commands  # it is opened for reading only

    connected(desk, body)


def test_what_was_there_before_the_channel_is_left_and_nothing_after_it(desk: ChannelDesk) -> None:
    server = MailServer()
    server.deliver(mail("old", Message_ID="<0@example.com>"))

    async def body(channel: OpenChannel, server: MailServer) -> None:
        assert channel.state == {"uidvalidity": 7, "uid": 1}
        for number in range(1, 4):
            server.deliver(mail(f"number {number}", Message_ID=f"<{number}@example.com>"))
        events = await channel.events(3)
        assert [event.message_id for event in events] == [f"<{number}@example.com>" for number in range(1, 4)]

    connected(desk, body, server=server)


@pytest.mark.parametrize("capabilities", ["IMAP4rev1 AUTH=PLAIN", "IMAP4rev1"])
def test_a_server_without_idle_is_asked_again(desk: ChannelDesk, capabilities: str) -> None:
    server = MailServer()
    server.capabilities = capabilities

    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.deliver(mail())
        assert (await channel.event()).message_id == "<1@example.com>"
        await server.until(lambda: server.commands.count("NOOP") >= 2)
        assert ("AUTHENTICATE" in server.commands) is ("AUTH" in capabilities)

    connected(desk, body, server=server, poll_seconds=1)


def test_news_that_come_together_with_the_answer_to_idle_are_seen(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        inbox = server.folders["INBOX"]
        server.deliver(mail())
        await channel.event()
        await server.until_idle(2)
        server.idle_with_news = b"* 3 EXISTS\r\n"
        server.deliver(mail(Message_ID="<2@example.com>"))
        await server.until(lambda: server.idle_with_news == b"" and len(inbox.mails) == 2)
        inbox.put(mail(Message_ID="<3@example.com>"))  # told of only by what was in the buffer
        events = await channel.events(2)
        assert [event.message_id for event in events] == ["<2@example.com>", "<3@example.com>"]

    connected(desk, body)


def test_threads_are_those_of_references_and_of_the_bots_own_mails(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.deliver(mail("first"))
        first = await channel.event()
        server.deliver(mail("again", Message_ID="<2@example.com>", References="<1@example.com>"))
        again = await channel.event()
        assert place(again) == place(first)
        assert again.text == "again"  # the subject is said where a thread begins
        server.deliver(mail("other", Message_ID="<3@example.com>"))
        other = await channel.event()
        assert place(other)[1] != place(first)[1]
        sent = await channel.send(
            "Yes.", *place(first)[:1], at={"thread_id": place(first)[1], "reply_to": first.message_id}
        )
        found = OWN.fullmatch(sent.message_id or "")
        assert found is not None
        # a program that says nothing but what it answers, and quotes that
        text = "Thanks!\n\nOn Mon, Nov 24, 2025 at 4:00 PM Help\n<help@example.org> wrote:\n> Yes.\n>\n"
        server.deliver(mail(text, Message_ID="<4@example.com>", In_Reply_To=sent.message_id))
        reply = await channel.event()
        assert place(reply) == place(first)
        assert (reply.text, reply.reply_to) == ("Thanks!", sent.message_id)
        assert reply.addressed == ["private", "reply"]

    connected(desk, body)


def test_the_channels_own_mails_are_not_heard(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        server.deliver(mail("I said so", From="Help <HELP@example.org>"))
        server.deliver(mail("and I", Message_ID="<2@example.com>"))
        assert (await channel.event()).message_id == "<2@example.com>"

    connected(desk, body)


# -- out ------------------------------------------------------------------------------------------


def test_an_answer_is_a_mail_with_text_and_html_in_its_thread(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        root = "<" + "r" * 120 + "@example.com>"
        server.deliver(mail("?", Subject="=?utf-8?q?Caf=C3=A9?=", References=root, In_Reply_To=root))
        event = await channel.event()
        at = {"thread_id": place(event)[1], "reply_to": event.message_id}
        text = "**Yes** & <no>:\n\n```python\nprint(1)\n```\n\n.\n\n- [a](https://a.example)"
        sent = await channel.send(text, "ada@example.com", at=at)
        (post,) = server.sent
        assert (post.sender, post.to) == ("help@example.org", ["ada@example.com"])
        got = read(post.raw)
        assert got["From"] == "Help <help@example.org>"
        assert (got["To"], got["Subject"]) == ("ada@example.com", "Re: Café")
        assert (got["Message-ID"], got["In-Reply-To"]) == (sent.message_id, "<1@example.com>")
        assert got["References"] == f"{root} <1@example.com>"
        assert root.encode() in post.raw  # as it is: no program finds the thread of an encoded word
        assert got["Auto-Submitted"] == "auto-replied"
        plain, page = content_of(got.get_body(("plain",))), content_of(got.get_body(("html",)))
        assert plain.startswith("Yes & <no>:\n")
        assert "print(1)" in plain
        assert "\n.\n" in plain
        assert "<strong>Yes</strong> &amp; &lt;no&gt;" in page
        assert '<a href="https://a.example">a</a>' in page
        filed = server.folders["Sent"].mails
        assert [one.raw for one in filed] == [post.raw]
        assert filed[0].flags == {"\\Seen"}

    connected(desk, body)


def test_what_is_answered_is_looked_up_when_it_is_not_known_any_more(desk: ChannelDesk) -> None:
    server = MailServer()
    server.deliver(mail("?", Subject="Of old", References="<0@example.com>"))
    server.deliver(mail("no id", Subject="Nameless", Message_ID=None))

    async def body(channel: OpenChannel, server: MailServer) -> None:
        await channel.send("Yes.", "ada@example.com", at={"reply_to": "<1@example.com>"})
        got = read(server.sent[-1].raw)
        assert (got["Subject"], got["References"]) == ("Re: Of old", "<0@example.com> <1@example.com>")
        await channel.send("And.", "ada@example.com", key="k2", at={"reply_to": "uid:7.2"})
        got = read(server.sent[-1].raw)
        assert (got["Subject"], got["In-Reply-To"]) == ("Re: Nameless", None)
        await channel.send("Gone.", "ada@example.com", key="k3", at={"reply_to": "<gone@example.com>"})
        got = read(server.sent[-1].raw)
        assert (got["Subject"], got["In-Reply-To"]) == ("Re: A message for you", "<gone@example.com>")

    connected(desk, body, server=server)


def test_a_mail_that_answers_none_begins_a_thread_of_its_own(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        sent = await channel.send("# Your order\n\nIt is *there*.", "ada@example.com")
        got = read(server.sent[0].raw)
        assert (got["Subject"], got["In-Reply-To"], got["Auto-Submitted"]) == (
            "Your order",
            None,
            "auto-generated",
        )
        assert content_of(got.get_body(("plain",))).strip() == "It is there."
        found = OWN.fullmatch(sent.message_id or "")
        assert found is not None
        server.deliver(mail("Thanks", In_Reply_To=sent.message_id))
        assert place(await channel.event()) == ("ada@example.com", found[2])
        await channel.send("**as it is**", "ada@example.com", key="k2", plain=True)
        got = read(server.sent[1].raw)
        assert (got["Subject"], got.get_content_type()) == ("A message for you", "text/plain")
        assert content_of(got).strip() == "**as it is**"

    connected(desk, body)


def test_files_go_both_ways(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        channel.ingest.files["art"] = content = bytes(range(256)) * 9_000
        ref = ArtifactRef(artifact_id="art", name="Bericht für Ada.pdf", mime_type="application/pdf")
        odd = ArtifactRef(artifact_id="art", name="x\r\nBcc: eve@evil.example", mime_type="message/rfc822")
        await channel.send("Here.", "ada@example.com", attachments=[ref, odd])
        got = read(server.sent[0].raw)
        names = [part.get_filename() for part in got.iter_attachments()]
        assert names == ["Bericht für Ada.pdf", "x Bcc: eve@evil.example"]
        first = next(iter(got.iter_attachments()))
        assert (first.get_content_type(), first.get_content()) == ("application/pdf", content)
        assert (got["Bcc"], server.sent[0].to) == (None, ["ada@example.com"])
        server.deliver(
            server.sent[0]
            .raw.replace(b"From: Help <help@example.org>", b"From: ada@example.com")
            .replace(b"Auto-Submitted", b"X-Was")
            .replace(b"X-Auto-Response-Suppress", b"X-Was")
        )
        event = await channel.event()
        assert event.text == "A message for you\n\nHere."
        assert [(one.name, one.mime_type, one.size_bytes) for one in event.attachments] == [
            ("Bericht für Ada.pdf", "application/pdf", len(content)),
            ("x Bcc: eve@evil.example", "application/octet-stream", len(content)),
        ]
        assert channel.ingest.files[event.attachments[0].artifact_id] == content

    connected(desk, body)


def test_a_long_answer_is_one_mail(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        text = "\n\n".join(f"{number}. {'wörd ' * 50}" for number in range(300))
        await channel.send(text, "ada@example.com")
        plain = content_of(read(server.sent[0].raw).get_body(("plain",)))
        assert plain.count("wörd") == 15_000
        assert max(len(line) for line in server.sent[0].raw.split(b"\r\n")) < 900

    connected(desk, body)


@pytest.mark.parametrize(
    ("chat", "text", "told"),
    [
        ("the lobby", "hi", "no address of mail"),
        ("ada@example.com\r\nBcc: eve@evil.example", "hi", "no address of mail"),
        ("ada@example.com,eve@evil.example", "hi", "no address of mail"),
        ("ädä@example.com", "hi", "letters before the @"),
        ("ada@example.com", " \n ", "empty"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_reason(
    desk: ChannelDesk, chat: str, text: str, told: str
) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        error = await refusal(channel.send(text, chat))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message
        assert server.sent == []

    connected(desk, body)


def test_an_address_gets_so_many_mails_an_hour_and_others_meanwhile(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        for key in ("a", "b"):
            await channel.send("hi", "ada@example.com", key=key)
        error = await refusal(channel.send("hi", "ada@example.com", key="c"))
        assert isinstance(error, RateLimitedError)
        assert error.retry_after is not None
        assert 3_500 < error.retry_after <= 3_600
        await channel.send("hi", "bob@münchen.example", key="d")
        assert server.sent[-1].to == ["bob@xn--mnchen-3ya.example"]
        assert len(server.sent) == 3

    connected(desk, body, per_hour=2)


# -- actions --------------------------------------------------------------------------------------

AT = {"chat_id": "ada@example.com", "message_id": "<1@example.com>"}


def test_actions_on_mails(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: MailServer) -> None:
        for number in range(1, 4):
            server.deliver(mail(f"number {number}", Message_ID=f"<{number}@example.com>"))
        await channel.events(3)
        inbox = server.folders["INBOX"].mails
        assert (await channel.act("message.pin", AT)).result == {}
        assert inbox[0].flags == {"\\Flagged"}
        page = (await channel.act("history.fetch", AT, limit=2)).result
        assert [one["text"] for one in page["messages"]] == ["number 3", "number 2"]
        page = (await channel.act("history.fetch", AT, limit=2, cursor=page["next_cursor"])).result
        assert [one["message_id"] for one in page["messages"]] == ["<1@example.com>"]
        assert "next_cursor" not in page
        forwarded = (await channel.act("message.forward", AT, to_chat_id="bob@example.com")).result
        assert server.sent[0].to == ["bob@example.com"]
        got = read(server.sent[0].raw)
        assert (got["Message-ID"], got["Subject"]) == (forwarded["message_id"], "Fwd: A question")
        assert next(iter(got.iter_attachments())).get_content() == inbox[0].raw
        assert (await channel.act("message.delete", AT)).result == {"folder": "Bin"}
        assert [one.uid for one in inbox] == [2, 3]
        found = await channel.act(
            "platform.call", {}, method="search", params={"criteria": ["SUBJECT", "question"]}
        )
        assert found.result["count"] == 2
        params = {"message_id": "<2@example.com>", "flag": "seen"}
        await channel.act("platform.call", {}, method="mark", params=params)
        assert inbox[0].flags == {"\\Seen"}
        params = {"message_id": "<2@example.com>", "folder": "Bin"}
        await channel.act("platform.call", {}, method="move", params=params)
        assert len(server.folders["Bin"].mails) == 2

    connected(desk, body)


@pytest.mark.parametrize(
    ("action", "target", "payload", "told"),
    [
        ("message.pin", {}, {}, "`message_id`"),
        ("message.pin", {"message_id": "<9@example.com>"}, {}, "is not in the folder"),
        ("message.pin", {"message_id": "uid:6.1"}, {}, "is not in the folder"),
        ("message.forward", AT, {"to_chat_id": "a@b\nBcc: c@d"}, "no address"),
        ("history.fetch", {"chat_id": "ada@example.com"}, {"limit": 1_000}, "from 1 to 100"),
        ("history.fetch", {"chat_id": "ada@example.com"}, {"cursor": "x"}, "next_cursor"),
        ("platform.call", {}, {"method": "EXPUNGE"}, "none of search, move and mark"),
        ("platform.call", {}, {"method": "search", "params": {"criteria": ["A\r\nB"]}}, "list of texts"),
        ("platform.call", {}, {"method": "mark", "params": {**AT, "flag": "\\Deleted"}}, "one of seen"),
        ("platform.call", {}, {"method": "move", "params": {**AT}}, "`folder`"),
    ],
)
def test_an_action_that_cannot_be_carried_out_says_why(
    desk: ChannelDesk, action: str, target: dict[str, Any], payload: dict[str, Any], told: str
) -> None:
    async def body(channel: OpenChannel, _: MailServer) -> None:
        error = await refusal(channel.act(action, target, **payload))
        assert isinstance(error, InvalidArgumentError)
        assert told in error.message

    connected(desk, body)
