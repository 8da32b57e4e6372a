"""The shipped channels as one table for tests of whole hosts: a server of each platform, and its people."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support import (
    dingtalk_desk,
    discord_desk,
    email_desk,
    lark_desk,
    line_desk,
    matrix_desk,
    slack_desk,
    telegram_desk,
    wecom_desk,
)
from support import discord_server as discord
from support import slack_methods as slack
from support import telegram_server as telegram
from support.discord_server import DiscordServer
from support.email_server import PASSWORD, MailServer
from support.matrix_server import ADA, ME, MatrixServer
from support.shipped_called import Line, WeCom
from support.shipped_linked import DingTalk, Lark
from support.shipped_platform import ROOMS, Hold, Platform
from support.slack_server import SlackServer
from support.telegram_server import TelegramServer

PLATFORMS = ("telegram", "slack", "discord", "matrix", "email", "lark", "dingtalk", "line", "wecom")


class Telegram(Platform):
    """A bot of Telegram, whose messages have no key and cannot be searched."""

    name, knows = "telegram", set()

    def __init__(self, server: TelegramServer) -> None:
        self.server, self.ports = server, [server.port]
        self.config = telegram_desk.config_of(server)

    def say(self, place: int, text: str) -> None:
        self.server.say(text, chat=telegram.ROOMS[place])

    def _messages(self, place: int) -> list[dict[str, Any]]:
        room = telegram.ROOMS[place]["id"]
        return [one for one in self.server.messages.values() if one["chat"]["id"] == room]

    def seen(self, place: int) -> list[str]:
        return [one.get("text") or one.get("caption") or "" for one in self._messages(place)]

    def hold(self, step: Hold, place: int) -> None:
        room = telegram.ROOMS[place]["id"]
        method = {"event": "getFile", "edited": f"editMessageText {room}"}.get(step, f"sendMessage {room}")
        self.server.refusals[method] = ["held" if step in {"event", "send"} else "mute"]

    def say_held(self, place: int, text: str) -> None:
        self.server.files["F1"] = b"x"
        file = {"file_id": "F1", "file_unique_id": "u", "file_name": "a.txt", "file_size": 1}
        self.server.say(chat=telegram.ROOMS[place], caption=text, document=file)

    def choose(self, place: int, number: int) -> None:
        asked = self._messages(place)[-1]
        buttons = [one for row in asked["reply_markup"]["inline_keyboard"] for one in row]
        room = telegram.ROOMS[place]
        self.server.press(asked["message_id"], buttons[number - 1]["callback_data"], chat=room)

    def held(self) -> bool:
        return not any({"held", "mute"} & set(map(str, found)) for found in self.server.refusals.values())

    async def again(self) -> None:
        self.server.update_again()


class Slack(Platform):
    """An app of Slack in Socket Mode."""

    name, secrets = "slack", ("token", "app-token")

    def __init__(self, server: SlackServer) -> None:
        self.server, self.ports = server, [server.port]
        self.config = slack_desk.config_of(server)
        self._said: list[dict[str, Any]] = []

    def _tell(self, message: dict[str, Any], place: int) -> None:
        self._said.append(self.server.said(message, slack.ROOMS[place]))
        self.server.envelope("events_api", self._said[-1])

    def say(self, place: int, text: str) -> None:
        self._tell(self.server.write(text, slack.ROOMS[place]), place)

    def seen(self, place: int) -> list[str]:
        return self.server.texts(slack.ROOMS[place])

    def hold(self, step: Hold, place: int) -> None:
        if step == "event":
            self.server.held = asyncio.Event()
        else:
            method = "chat.update" if step == "edited" else "chat.postMessage"
            self.server.answers[f"{method} {slack.ROOMS[place]}"] = ["held" if step == "send" else "mute"]

    def say_held(self, place: int, text: str) -> None:
        self.server.files["F1"] = b"x"
        address = f"{self.server.address}/files/F1"
        file = {"id": "F1", "name": "a.txt", "mode": "hosted", "url_private": address}
        self._tell(self.server.write(text, slack.ROOMS[place], files=[file]), place)

    def choose(self, place: int, number: int) -> None:
        asked = self.server.last(slack.ROOMS[place])
        buttons = [one for block in asked["blocks"] for one in block.get("elements", [])]
        where = {"ts": asked["ts"], "chat": slack.ROOMS[place], "trigger": f"13.{place}"}
        self.server.envelope("interactive", self.server.press(buttons[number - 1]["value"], **where))

    def held(self) -> bool:
        if self.server.held is not None:
            return self.server.downloading > 0
        return not any(self.server.answers.values())

    async def again(self) -> None:
        await self.server.until_links(0)
        assert self.server.held is not None
        self.server.held.set()
        for said in self._said:
            self.server.envelope("events_api", said, retry=1)


class Discord(Platform):
    """A bot of Discord."""

    name = "discord"

    def __init__(self, server: DiscordServer) -> None:
        self.server, self.ports = server, [server.port]
        self.config = discord_desk.config_of(server)
        self._telling: set[asyncio.Task[Any]] = set()
        self._file = ""

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def say(self, place: int, text: str) -> None:
        self._spawn(self.server.say(text, discord.ROOMS[place]))

    def _messages(self, place: int) -> list[dict[str, Any]]:
        found = self.server.messages.values()
        return [
            one for one in found if one["author"] == discord.ME and one["channel_id"] == discord.ROOMS[place]
        ]

    def seen(self, place: int) -> list[str]:
        return [one["content"] for one in self._messages(place)]

    def hold(self, step: Hold, place: int) -> None:
        if step == "event":
            self._file = "a.txt"
            self.server.broken_files[self._file] = ["hang"]
        else:
            call = "PATCH /channels/*/messages/*" if step == "edited" else "POST /channels/*/messages"
            self.server.refusals[f"{call} {discord.ROOMS[place]}"] = ["held" if step == "send" else "mute"]

    def say_held(self, place: int, text: str) -> None:
        file = self.server.attachment(self._file, b"x")
        self._spawn(self.server.say(text, discord.ROOMS[place], attachments=[file]))

    def choose(self, place: int, number: int) -> None:
        asked = self._messages(place)[-1]
        buttons = [one for row in asked["components"] for one in row["components"]]
        press = self.server.press(asked["id"], buttons[number - 1]["custom_id"], discord.ROOMS[place])
        self._spawn(press)

    def held(self) -> bool:
        return not any(self.server.broken_files.values()) and not any(self.server.refusals.values())

    async def again(self) -> None:
        self.server.gateway.forget()


class Matrix(Platform):
    """An account of Matrix. It has no buttons: people answer with numbers."""

    name, secrets, buttons = "matrix", ("access-token",), False

    def __init__(self, server: MatrixServer) -> None:
        self.server, self.ports = server, [server.port]
        self.config = matrix_desk.config_of(server)
        self.rooms = [f"!room{number}:hs.example" for number in range(ROOMS)]
        for room in self.rooms:
            server.stream.make(room, ADA, ME)

    def say(self, place: int, text: str) -> None:
        self.server.say(text, room=self.rooms[place])

    def seen(self, place: int) -> list[str]:
        return self.server.texts(self.rooms[place])

    def hold(self, step: Hold, place: int) -> None:
        method = "download" if step == "event" else f"send {self.rooms[place]}"
        self.server.refusals[method] = ["held" if step in {"event", "send"} else "mute"]

    def say_held(self, place: int, text: str) -> None:
        self.server.files["F1"] = b"x"
        file = {"msgtype": "m.file", "filename": "a.txt", "url": "mxc://hs.example/F1"}
        self.server.say(text, file, room=self.rooms[place])

    def held(self) -> bool:
        return not any(self.server.refusals.values())

    async def again(self) -> None:
        self.server.rewinds = True


class Email(Platform):
    """A mailbox without edits and buttons. That a mail was sent is seen where it is filed."""

    name, secrets = "email", ("password",)
    edits = buttons = False
    knows = {"sent"}

    def __init__(self, server: MailServer) -> None:
        self.server, self.ports = server, list(server.ports.values())
        server.files_sent = True
        self.config = email_desk.config_of(server) | {"password": PASSWORD}
        self._number = 0

    def say(self, place: int, text: str) -> None:
        self._number += 1
        last = [one for one in self.server.sent if one.to == [f"ada{place}@example.com"]][-1:]
        answers = {"In_Reply_To": email_desk.read(last[0].raw)["Message-ID"]} if last else {}
        sender = f"ada{place}@example.com"
        fields = {"From": f"Ada <{sender}>", "Return_Path": f"<{sender}>", "Subject": None, **answers}
        mail = email_desk.mail(text, Message_ID=f"<{self._number}@example.com>", **fields)
        self.server.deliver(mail)

    def seen(self, place: int) -> list[str]:
        to = [f"ada{place}@example.com"]
        mails = [email_desk.read(one.raw) for one in self.server.sent if one.to == to]
        return [email_desk.content_of(one.get_body(("plain",))).strip() for one in mails]

    def hold(self, step: Hold, place: int) -> None:
        if step == "event":
            self.server.fault(f"FETCH {self.server.folders['INBOX'].following}", "stall")
        else:
            self.server.fault(f"{'BEFORE' if step == 'send' else 'AFTER'} ada{place}@example.com", "stall")

    def say_held(self, place: int, text: str) -> None:
        self.say(place, text)

    def held(self) -> bool:
        return not any(self.server.faults.values())

    async def again(self) -> None:
        self.server.folders["INBOX"].validity += 1


@asynccontextmanager
async def platform_of(name: str, tls: ssl.SSLContext) -> AsyncIterator[Platform]:
    """A platform by its name, whose server is up."""
    match name:
        case "telegram":
            async with telegram_desk.serving() as telegram_server:
                yield Telegram(telegram_server)
        case "slack":
            async with slack_desk.serving(tls=tls) as slack_server:
                yield Slack(slack_server)
        case "discord":
            async with discord_desk.serving(tls=tls) as discord_server:
                yield Discord(discord_server)
        case "matrix":
            async with matrix_desk.serving() as matrix_server:
                yield Matrix(matrix_server)
        case "email":
            async with email_desk.serving() as mail_server:
                yield Email(mail_server)
        case "lark":
            async with lark_desk.serving(tls=tls) as lark_server, asyncio.TaskGroup() as group:
                yield Lark(lark_server, group)
        case "dingtalk":
            async with dingtalk_desk.serving(tls=tls) as dingtalk_server:
                yield DingTalk(dingtalk_server)
        case "line":
            async with line_desk.serving(tls=tls) as line_server, asyncio.TaskGroup() as group:
                yield Line(line_server, group)
        case "wecom":
            async with wecom_desk.serving(tls=tls) as wecom_server, asyncio.TaskGroup() as group:
                yield WeCom(wecom_server, group)
        case _:
            raise ValueError(name)


def question(title: str, *labels: str) -> str:
    """What the agent of the tests is told for it to ask something."""
    actions = [{"name": label.lower(), "label": label} for label in labels]
    return json.dumps({"ask": {"title": title, "actions": actions}})
