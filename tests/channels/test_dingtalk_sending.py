"""DingTalk: messages out, as cards and as Markdown, with buttons and files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler_protocol.channels import Button
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import InvalidArgumentError, to_fault
from support.channel_desk import ChannelDesk, OpenChannel, refusal
from support.dingtalk_calls import ADA, GROUP, OWN_TEMPLATE, TEMPLATE
from support.dingtalk_desk import connected, desk, place
from support.dingtalk_server import DingTalkServer

__all__ = ["desk"]


PRIVATE = f"user:{ADA}"


@pytest.mark.parametrize("chat", [GROUP, PRIVATE])
def test_an_answer_is_a_card_that_grows(desk: ChannelDesk, chat: str) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        sent = await channel.send("Hel", chat)
        (card,) = server.written[chat]
        assert (card["track"], card["template"]) == (sent.message_id, TEMPLATE)
        await channel.edit(sent.message_id, "Hello", chat, last=False)
        await channel.edit(sent.message_id, "Hello **Ada**", chat)
        assert card["history"] == [("Hel", "3"), ("Hello", "2"), ("Hello **Ada**", "3")]

    connected(desk, body)


def test_buttons_are_pressed_on_the_card(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.say("go", senderNick="Ada L.")
        await channel.event()
        buttons = [[Button(label="Yes", value="v:1", style="primary"), Button(label="No", value="v:2")]]
        sent = await channel.send("Really?", PRIVATE, buttons=buttons)
        card = server.card(sent.message_id)
        told = [(one["text"], one["color"], one["id"], one["request"]) for one in card["buttons"]]
        assert told == [("Yes", "blue", "v:1", True), ("No", "gray", "v:2", True)]
        assert sent.message_id in channel.state["cards"]  # kept at once
        channel.ingest.notice = "Noted."
        frame_id = server.press(str(sent.message_id), "v:1")
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("interaction.submitted", sent.message_id)
        assert (event.data["value"], event.event_id) == ("v:1", f"card:{frame_id}")
        assert place(event) == ("private", PRIVATE)
        assert event.person is not None
        assert (event.person.person_id, event.person.name) == (ADA, "Ada L.")
        assert json.loads((await server.until_acknowledged(frame_id))["data"]) == {"response": {}}
        await server.until_true(lambda: "Noted." in server.texts(PRIVATE))
        await channel.edit(sent.message_id, "Ada said yes", PRIVATE)
        assert (card["text"], card["buttons"]) == ("Ada said yes", [])

    connected(desk, body)


@pytest.mark.parametrize(
    ("told", "chat"),
    [
        ({"spaceType": "IM_GROUP", "spaceId": GROUP}, ("group", GROUP)),
        ({"spaceType": "IM_ROBOT", "spaceId": "x"}, ("private", PRIVATE)),
        ({}, None),
    ],
)
def test_a_card_that_is_not_remembered_is_where_dingtalk_says(
    desk: ChannelDesk, told: dict[str, Any], chat: tuple[str, str] | None
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        server.press("hostler-forgotten", "v:1", **told)
        event = await channel.event()
        assert (None if event.chat is None else place(event)) == chat
        server.press("hostler-forgotten", "v:1", content="{}")
        assert (await channel.event()).event_type == "platform.card"

    connected(desk, body)


def test_a_template_of_the_operators_gets_its_variables(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        sent = await channel.send("Sure?", GROUP, buttons=[[Button(label="Go", value="v:9", style="danger")]])
        card = server.card(sent.message_id)
        assert (card["template"], card["text"], card["status"]) == (OWN_TEMPLATE, "Sure?", "3")
        (button,) = card["buttons"]
        assert (button["text"], button["color"]) == ("Go", "red")
        params = button["event"]["params"]
        private = {"cardPrivateData": {"actionIds": [params["actionId"]], "params": params["params"]}}
        server.press(str(sent.message_id), "", content=json.dumps(private))
        assert (await channel.event()).data["value"] == "v:9"

    connected(desk, body, card_template=OWN_TEMPLATE)


MARKDOWN = """# Title

One line
and *another* with `a*b`, `` a`b `` and snake_case, 2 * 3.

- first
- second

```python
if a_b * c:
    print("x")
```

| a | b |
|---|---|
| 1 | 2 |

> said [so](https://example.org/a_b)"""


WRITTEN = """**Title**⏎

One line⏎
and *another* with `a*b`, `` a`b `` and snake\\_case, 2 \\* 3.⏎

• first⏎
• second⏎

```python
if a_b * c:
    print("x")
```

```
a | b
--+--
1 | 2
```

> said [so](https://example.org/a_b)""".replace("⏎", "  ")


@pytest.mark.parametrize("cards", [True, False])
def test_markdown_becomes_that_of_dingtalk(desk: ChannelDesk, cards: bool) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        await channel.send(MARKDOWN, GROUP, key="k1")
        await channel.send("# not *marked*\n1. no", GROUP, key="k2", plain=True)
        marked, plain = server.texts(GROUP)
        assert marked == WRITTEN
        assert plain == ("\\# not \\*marked\\*  \n1\\. no" if cards else "# not *marked*\n1. no")
        if not cards:
            one, two = server.written[GROUP]
            assert (one["kind"], one["params"]["title"]) == ("sampleMarkdown", "Title")
            assert two["kind"] == "sampleText"

    connected(desk, body, cards=cards)


@pytest.mark.parametrize("cards", [True, False])
def test_nothing_that_an_agent_writes_speaks_for_who_reads_it(desk: ChannelDesk, cards: bool) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        link = "[Weather](dtmd://dingtalkclient/sendMessage?content=1)"  # whoever clicks it says 1
        await channel.send(f"{link} <font color=red>x</font> ![p](https://a.example/p(1).png)", GROUP)
        (text,) = server.texts(GROUP)
        assert text == (
            "Weather (dtmd://dingtalkclient/sendMessage?content=1) \\<font color=red>x\\</font> "
            "[p](https://a.example/p%281%29.png)"
        )

    connected(desk, body, cards=cards)


@pytest.mark.parametrize("cards", [True, False])
def test_files_follow_the_text_each_as_it_is_taken(desk: ChannelDesk, cards: bool) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        files = [("报告.pdf", "application/pdf"), ("b.png", "image/png"), ('c"\r\n.py', "text/plain")]
        channel.ingest.files["F"] = b"content"
        refs = [ArtifactRef(artifact_id="F", name=name, mime_type=kind) for name, kind in files]
        await channel.send("see", GROUP, attachments=refs)
        told = server.written[GROUP]
        assert [one.get("kind") for one in told[1:]] == ["sampleFile", "sampleImageMsg", "sampleFile"]
        pdf, png, packed = (one["file"] for one in told[1:])
        assert pdf == ("file", "报告.pdf", b"content")
        assert png == ("image", "b.png", b"content")
        assert packed[1] == "c'.py.zip"
        unnamed = ArtifactRef(artifact_id="F", mime_type="application/pdf; x=y")
        await channel.send(chat=GROUP, key="k2", attachments=[unnamed])
        assert server.written[GROUP][-1]["file"] == ("file", "file.pdf", b"content")
        assert b"content" in packed[2] or packed[2][:2] == b"PK"

    connected(desk, body, cards=cards)


@pytest.mark.parametrize(
    ("chat", "message", "why"),
    [
        ("7", {"text": "x"}, "is no chat of DingTalk"),
        (GROUP, {"text": " "}, "empty"),
        ("user:nobody", {"text": "x"}, "spaceId is illegal"),
        (GROUP, {"text": "x", "buttons": [[Button(label=str(n), value=str(n)) for n in range(21)]]}, "20"),
    ],
)
def test_what_dingtalk_cannot_take_is_refused_for_good(
    desk: ChannelDesk, chat: str, message: dict[str, Any], why: str
) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        error = await refusal(channel.send(chat=chat, **message))
        assert isinstance(error, InvalidArgumentError)
        assert why in to_fault(error).message
        assert server.texts(GROUP) == []

    connected(desk, body)


def test_without_cards_nothing_can_be_edited(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: DingTalkServer) -> None:
        sent = await channel.send("x", GROUP)
        assert isinstance(await refusal(channel.edit(sent.message_id, "y", GROUP)), InvalidArgumentError)
        error = await refusal(channel.send("x", "user:nobody"))
        assert "does not deliver to this person" in error.message

    connected(desk, body, cards=False)
