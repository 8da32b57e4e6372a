"""Messages to members of WeCom: text, Markdown, cards with buttons, presses and files."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hostler_protocol.channels import Button
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError, RemoteFaultError
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.wecom_desk import come, connected, desk, find
from support.wecom_envelopes import AGENT, press
from support.wecom_server import WecomServer, refused

__all__ = ["desk"]


PNG = b"\x89PNG\r\n\x1a\n and so on"


LONG_LINE = "字" * 600


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("**bold** and `code`, [here](https://e.org/a_(b))", "markdown", None),
        ("# Title\n\n- one\n- *two*", "markdown", "**Title**\n\n• one\n• two"),
        ("> quoted\n\nname_with_marks is 3 > 2", "markdown", "> quoted\n\nname_with_marks is 3 > 2"),
        ("```python\n  if a:\n    b()\n```", "text", "  if a:\n    b()"),
        ("| a | b |\n|---|---|\n| 1 | **2** |", "text", "a | b\n--+--\n1 | 2"),
        ("a literal \\*star\\* and **bold**", "text", "a literal *star* and bold"),
        ("`<a href='https://e.org'>x</a>`", "text", "<a href='https://e.org'>x</a>"),
        ("see [docs](https://e.org) at 3 \\* 4", "markdown", "see [docs](https://e.org) at 3 * 4"),
        ("see [docs](https://e.org) at \\[a](b)", "text", "see docs (https://e.org) at [a](b)"),
        ("漢字 😀", "markdown", "漢字 😀"),
    ],
)
def test_markdown_becomes_what_wecom_shows(
    desk: ChannelDesk, text: str, kind: str, shown: str | None
) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        sent = await channel.send(text, "ada")
        (message,) = server.delivered
        assert (message["msgtype"], message["touser"], message["agentid"]) == (kind, "ada", AGENT)
        wanted = "**bold** and `code`, [here](https://e.org/a_%28b%29)" if shown is None else shown
        assert server.texts() == [wanted]
        assert "<a" not in message[kind]["content"], "nothing of it becomes a link, and is hidden"
        assert sent.message_id == message["msgid"]

    connected(desk, body)


def test_the_same_text_twice_is_two_messages_and_a_repetition_is_none(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        await channel.send("ok", "ada", key="k1")
        await channel.send("ok", "ada", key="k2")
        assert (server.texts(), server.dropped) == (["ok", "ok"], [])
        again = await channel.send("ok", "ada", key="k1")
        assert (len(server.delivered), len(server.dropped)) == (2, 1)
        assert (again.message_id, again.in_doubt) == (None, False)

    connected(desk, body)


def test_without_the_check_nothing_is_added_and_nothing_is_known(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        await channel.send("**ok**", "ada")
        (message,) = server.delivered
        assert message["text"] == {"content": "ok"}
        assert "enable_duplicate_check" not in message
        assert (await find(channel, time.time())).found is None

    connected(desk, body, duplicate_check=False, format="text")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LONG_LINE, "markdown"),
        ("- x\n" * 450, "markdown"),
        ("<a>" * 600, "text"),
        ("**a** b\n\n" * 200, "markdown"),
    ],
)
def test_nothing_of_a_long_text_is_cut_off(desk: ChannelDesk, text: str, kind: str) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        assert len(text.encode()) <= 1_800
        await channel.send(text, "ada")
        assert {one["msgtype"] for one in server.delivered} == {kind}
        assert all(len(one[kind]["content"].encode()) <= 2_048 for one in server.delivered)
        whole = "".join(server.texts())
        for sign in "字xb":
            assert whole.count(sign) == text.count(sign)
        assert whole.count("<") == text.count("<")

    connected(desk, body)


def _buttons(count: int) -> list[list[Button]]:
    return [[Button(label=f"Choice {number}", value=f"v{number}")] for number in range(count)]


def test_a_short_question_is_one_card(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        buttons = [
            [Button(label="Approve", value="yes", style="primary"), Button(label="D" * 50, value="no")],
        ]
        sent = await channel.send("Delete it?\nrows: 7", "ada", plain=True, buttons=buttons)
        (message,) = server.delivered
        card = message["template_card"]
        assert card["card_type"] == "button_interaction"
        assert (card["main_title"], card["sub_title_text"]) == ({"title": "Delete it?"}, "rows: 7")
        assert [(one["key"], one["text"]) for one in card["button_list"]] == [
            ("yes", "Approve"),
            ("no", "D" * 29 + "…"),
        ]
        assert sent.message_id == message["msgid"]

    connected(desk, body)


def test_a_long_question_with_many_choices_is_a_text_and_cards(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        text = "A **question** that is too long for a title of a card\n\n" + "argument\n" * 40
        sent = await channel.send(text, "ada", buttons=_buttons(14))
        first, *cards = server.delivered
        assert first["markdown"]["content"].startswith("A **question** that is too long")
        assert [len(one["template_card"]["button_list"]) for one in cards] == [6, 6, 2]
        titles = [one["template_card"]["main_title"]["title"] for one in cards]
        assert all(len(title) <= 36 and title.startswith("A question that") for title in titles)
        assert len({one["template_card"]["task_id"] for one in cards}) == 3
        assert sent.message_id == "|".join(one["msgid"] for one in server.delivered)

    connected(desk, body)


def test_buttons_alone_are_a_card(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        await channel.send("", "ada", buttons=_buttons(1))
        assert server.delivered[0]["template_card"]["main_title"]["title"] == "…"

    connected(desk, body)


def test_a_card_whose_task_is_known_was_sent(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        server.answers["message/send"] = ["cut"]
        assert (await channel.send("Q?", "ada", buttons=_buttons(1))).in_doubt
        server.forget()  # hours later
        error = await refusal(channel.send("Q?", "ada", buttons=_buttons(1)))
        assert "task_id" in error.message, "a first try that is refused was not sent"
        assert not (await channel.send("Q?", "ada", buttons=_buttons(1), attempt=2)).in_doubt
        assert len(server.delivered) == 1

    connected(desk, body)


# -- presses --------------------------------------------------------------------------------------


def test_a_decision_is_shown_on_its_card(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        channel.ingest.notice, channel.ingest.outcome = (
            "Approved by Ada Lovelace, who has a long name",
            "decided",
        )
        assert await come(channel, press("yes", code="code-1")) == 200
        found = await channel.event()
        assert (found.event_type, found.data["value"], found.message_id) == (
            "interaction.submitted",
            "yes",
            "t",
        )
        assert "code-1" not in repr(found), "nobody else may change the card"
        (update,) = await server.until_called("message/update_template_card")
        assert update.body == {
            "userids": ["ada"],
            "agentid": AGENT,
            "response_code": "code-1",
            "button": {"replace_name": "Approved by Ada Lovelace, who…"},
        }
        assert server.delivered == []

    connected(desk, body)


def test_who_may_not_decide_is_told_alone_and_the_card_stays(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        channel.ingest.notice, channel.ingest.outcome = "This is not yours to decide", "ignored"
        assert await come(channel, press("yes", user="bob")) == 200
        await server.until_true(lambda: server.delivered)
        assert (server.texts(), server.delivered[0]["touser"]) == (["This is not yours to decide"], "bob")
        assert server.called("message/update_template_card") == []

    connected(desk, body)


def test_a_card_that_cannot_be_changed_stops_nothing(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        channel.ingest.notice, channel.ingest.outcome = "Approved", "decided"
        assert await come(channel, press("yes", code="used")) == 200
        await server.until_called("message/update_template_card")
        await channel.send("goes on", "ada")
        assert server.texts() == ["goes on"]

    connected(desk, body)


# -- files ----------------------------------------------------------------------------------------


def _file(channel: OpenChannel, id_: str, content: bytes, **more: Any) -> ArtifactRef:
    channel.ingest.files[id_] = content
    return ArtifactRef(artifact_id=id_, size_bytes=len(content), **more)


def test_files_follow_the_text_each_as_what_it_is(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        files = [
            _file(channel, "1", PNG, name="a.png", mime_type="image/png"),
            _file(channel, "2", b"#!AMR\nvoice", name="v.amr", mime_type="audio/amr"),
            _file(channel, "3", b"0" * 100, name="v.mp4", mime_type="video/mp4"),
            _file(
                channel, "4", b"report" * 200_000, name='报告 "1"\r\nX: y.pdf', mime_type="application/pdf"
            ),
            _file(channel, "5", b"no image", name="b.jpg", mime_type="image/jpeg"),
            _file(channel, "6", b"no type", mime_type="a type\r\n"),
        ]
        sent = await channel.send("see", "ada", attachments=files)
        kinds = [one["msgtype"] for one in server.delivered]
        assert kinds == ["markdown", "image", "voice", "video", "file", "file", "file"]
        given = [server.media[one[one["msgtype"]]["media_id"]] for one in server.delivered[1:]]
        assert [one[0] for one in given] == [channel.ingest.files[str(number)] for number in range(1, 7)]
        assert [one[2] for one in given] == ["a.png", "v.amr", "v.mp4", "报告 _1___X: y.pdf", "b.jpg", "file"]
        assert given[5][1] == "application/octet-stream"
        assert sent.message_id is not None
        assert len(sent.message_id.split("|")) == 7
        assert channel.state["uploads"] != {}, "they were kept before they were sent"

    connected(desk, body)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([b"12345"], "over 5 bytes"),
        ([b"x" * 10] * 11, "11 files"),
        ([bytes(20 * 2**20 + 1)], "over 20 MiB"),
    ],
)
def test_files_that_wecom_does_not_take_are_refused_before_anything_is_sent(
    desk: ChannelDesk, files: list[bytes], why: str
) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        refs = [_file(channel, str(number), content, name="f") for number, content in enumerate(files)]
        error = await refusal(channel.send("see", "ada", attachments=refs))
        assert isinstance(error, InvalidArgumentError)
        assert why in error.message
        assert server.delivered == []

    connected(desk, body)


def test_parts_that_were_sent_are_not_sent_again(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        files = [_file(channel, str(number), b"content", name=f"{number}.txt") for number in range(2)]
        for method in ("media/upload", "message/send"):
            server.answers[method] = [None, refused(45009, "api freq out of limit")]
            error = await refusal(channel.send(method, "ada", key=method, attachments=files))
            assert isinstance(error, RateLimitedError)
            assert error.retry_after == 60
            await channel.send(method, "ada", key=method, attachments=files)
        assert [one["msgtype"] for one in server.delivered] == ["text", "file", "file"] * 2 or [
            one["msgtype"] for one in server.delivered
        ] == ["markdown", "file", "file"] * 2
        assert server.dropped == []

    connected(desk, body)


def test_files_that_are_gone_are_uploaded_anew(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: WecomServer) -> None:
        file = _file(channel, "1", b"content", name="a.txt")
        server.answers["message/send"] = [refused(45033, "api concurrent out of limit")]
        error = await refusal(channel.send("", "ada", attachments=[file]))
        assert isinstance(error, RateLimitedError)
        server.media.clear()  # three days later
        assert isinstance(await refusal(channel.send("", "ada", attachments=[file])), RemoteFaultError)
        await channel.send("", "ada", attachments=[file])
        assert [one["msgtype"] for one in server.delivered] == ["file"]

    connected(desk, body)
