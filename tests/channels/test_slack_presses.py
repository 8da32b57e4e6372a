"""Slack: presses of buttons, menus and forms, and notices to who pressed."""

from __future__ import annotations

from typing import Any

from hostler_protocol.channels import Button
from support.channel_desk import ChannelDesk, OpenChannel
from support.slack_desk import connected, desk, place
from support.slack_methods import ADA, GENERAL, Refused
from support.slack_server import SlackServer

__all__ = ["desk"]


def test_a_press_comes_in_and_its_notice_is_shown_to_the_person_alone(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        rows = [
            [
                Button(label="Yes", value="yes:1", style="primary"),
                Button(label="N" * 80, value="v" * 64, style="danger"),
            ],
            [Button(label="Later", value="later")],
        ]
        sent = await channel.send("Shall **I**?", GENERAL, buttons=rows)
        section, first, second = server.last(GENERAL)["blocks"]
        assert section["text"] == {"type": "mrkdwn", "text": "Shall *I*?"}
        assert server.last(GENERAL)["text"] == "Shall *I*?"  # for notifications
        yes, no = first["elements"]
        assert (yes["text"]["text"], yes["value"], yes["style"]) == ("Yes", "yes:1", "primary")
        assert (no["text"]["text"], no["style"]) == ("N" * 74 + "…", "danger")
        assert "style" not in second["elements"][0]
        ids = [element["action_id"] for block in (first, second) for element in block["elements"]]
        assert len(set(ids)) == 3
        channel.ingest.notice = "Only <Grace> may decide"
        press = server.press("yes:1", ts=str(sent.message_id), thread_ts="5.000001")
        envelope = server.envelope("interactive", press)
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("interaction.submitted", sent.message_id)
        assert event.data["value"] == "yes:1"
        assert event.person is not None
        assert event.person.person_id == ADA
        assert place(event) == ("group", GENERAL, "5.000001")
        assert "hooks.slack.com" not in str(event.data)
        await server.until_acknowledged(envelope)
        (answer,) = await server.until_called("chat.postEphemeral")
        assert answer.params["text"] == "Only &lt;Grace> may decide"
        assert (answer.params["user"], answer.params["channel"]) == (ADA, GENERAL)
        assert answer.params["thread_ts"] == "5.000001"
        channel.ingest.notice = None
        again = server.envelope("interactive", {**press, "trigger_id": "13.9"})
        await channel.until(lambda: len(channel.ingest.duplicates) == 1)
        await server.until_acknowledged(again)
        assert len(server.called("chat.postEphemeral")) == 1

    connected(desk, body)


def test_a_notice_that_cannot_be_shown_is_no_error(desk: ChannelDesk) -> None:
    async def body(channel: OpenChannel, server: SlackServer) -> None:
        server.answers["chat.postEphemeral"] = [Refused("user_not_in_channel"), "cut"]
        channel.ingest.notice = "no"
        for number in ("13.1", "13.2"):
            press = server.press("a", ts="5.1", trigger=number)
            press["actions"][0]["action_ts"] = number
            server.envelope("interactive", press)
            await channel.event()
        await server.until_called("chat.postEphemeral", 2)
        channel.ingest.notice = None
        menu = server.press("", ts="5.1", trigger="13.3")
        menu["actions"] = [{"action_id": "m", "type": "static_select", "selected_option": {"value": "tea"}}]
        server.envelope("interactive", menu)
        assert (await channel.event()).data["value"] == "tea"
        people = server.press("", ts="5.1", trigger="13.4")
        people["actions"] = [{"action_id": "p", "type": "multi_users_select", "selected_users": [ADA]}]
        server.envelope("interactive", people)
        event = await channel.event()
        assert (event.event_type, event.message_id) == ("platform.block_actions", "5.1")
        urls = [{"response_url": "https://hooks.slack.com/x"}]
        form: dict[str, Any] = {"type": "view_submission", "trigger_id": "13.5", "user": {"id": ADA}}
        form |= {"view": {"state": {}}, "token": "verification", "response_urls": urls}
        server.envelope("interactive", form)
        event = await channel.event()
        assert event.event_type == "platform.view_submission"
        assert "verification" not in str(event.data)
        assert "hooks.slack.com" not in str(event.data)  # whoever has it may write in the chat
        assert event.person is not None
        assert event.person.person_id == ADA

    connected(desk, body)
