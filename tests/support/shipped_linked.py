"""Lark and DingTalk, which the bot connects to, as platforms for tests of whole hosts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from support import dingtalk_desk, lark_desk
from support import lark_methods as lark
from support.channel_process import LOOK_SECONDS
from support.dingtalk_calls import SECRET
from support.dingtalk_server import CARDS, MESSAGES, DingTalkServer
from support.lark_events import pressed, said
from support.lark_server import LarkServer
from support.shipped_platform import ROOMS, Hold, Platform


class Lark(Platform):
    """An app of Lark with a long connection. Its messages have keys, which Lark takes once within an hour."""

    name, secrets = "lark", ("app-secret",)

    def __init__(self, server: LarkServer, group: asyncio.TaskGroup) -> None:
        self.server, self.ports = server, [server.port]
        self.config = lark_desk.config_of(server)
        self._group = group
        self._told: list[dict[str, Any]] = []
        self._frames: list[str] = []

    def _tell(self, payload: dict[str, Any]) -> None:
        self._told.append(payload)
        self._group.create_task(self._push(payload))

    async def _push(self, *payloads: dict[str, Any]) -> None:
        await self.server.until_links(1)
        self._frames += [self.server.push(one) for one in payloads]

    def say(self, place: int, text: str) -> None:
        self._tell(said(self.server, text, lark.ROOMS[place]))

    def seen(self, place: int) -> list[str]:
        return self.server.texts(lark.ROOMS[place])

    def hold(self, step: Hold, place: int) -> None:
        if step == "event":
            self.server.held = asyncio.Event()
        else:
            call = "edit" if step == "edited" else "send"
            self.server.answers[f"{call} {lark.ROOMS[place]}"] = ["held" if step == "send" else "mute"]

    def say_held(self, place: int, text: str) -> None:
        self.server.files["img_1"] = (b"x", "image/png")
        row = [{"tag": "text", "text": text}, {"tag": "img", "image_key": "img_1"}]
        self._tell(said(self.server, {"title": "", "content": [row]}, lark.ROOMS[place], kind="post"))

    def choose(self, place: int, number: int) -> None:
        asked = self.server.sent(lark.ROOMS[place])[-1]
        value = json.loads(lark.buttons_of(asked)[number - 1][2])
        self._tell(pressed(self.server, value, asked["message_id"], lark.ROOMS[place]))

    def held(self) -> bool:
        if self.server.held is not None:
            return self.server.downloading > 0
        return not any(self.server.answers.values())

    async def again(self) -> None:
        await self.server.until_links(0)
        assert self.server.held is not None
        assert self._frames[-1] not in self.server.acknowledged
        self.server.held.set()
        self._frames = []
        self._group.create_task(self._push(*self._told))

    async def acknowledged(self) -> None:
        while len(self._frames) < len(self._told):
            await asyncio.sleep(LOOK_SECONDS)
        for frame in self._frames:
            await self.server.acknowledgement(frame)


class DingTalk(Platform):
    """A robot of DingTalk in stream mode, whose cards have no key that is taken once, nor can be searched."""

    name, secrets, knows = "dingtalk", ("client-secret",), set()
    rooms = tuple(f"cidRoom{number}==" for number in range(ROOMS))

    def __init__(self, server: DingTalkServer) -> None:
        self.server, self.ports = server, [server.port]
        self.config = dingtalk_desk.config_of(server) | {"client-secret": SECRET}
        self._told: list[tuple[str, dict[str, Any], str]] = []
        """Topic, data and id of frames."""

    def _tell(self, topic: str, told: dict[str, Any]) -> None:
        self._told.append((topic, told, self.server.frame("CALLBACK", topic, told)))

    def _said(self, place: int, text: str = "", **more: Any) -> dict[str, Any]:
        return self.server.message(text, group=True, conversationId=self.rooms[place], **more)

    def say(self, place: int, text: str) -> None:
        self._tell(MESSAGES, self._said(place, text))

    def seen(self, place: int) -> list[str]:
        return self.server.texts(self.rooms[place])

    def hold(self, step: Hold, place: int) -> None:
        if step == "event":
            self.server.held = asyncio.Event()
        else:
            path = "/v1.0/card/instances" if step == "edited" else "/v1.0/card/instances/createAndDeliver"
            self.server.answers[f"{path} {self.rooms[place]}"] = ["held" if step == "send" else "mute"]

    def say_held(self, place: int, text: str) -> None:
        self.server.files["F1"] = b"x"
        parts = [{"text": text}, {"downloadCode": "F1"}]
        self._tell(MESSAGES, self._said(place, msgtype="richText", content={"richText": parts}))

    def choose(self, place: int, number: int) -> None:
        asked = self.server.written[self.rooms[place]][-1]
        press = self.server.press_of(asked["track"], asked["buttons"][number - 1]["id"])
        self._tell(CARDS, press)

    def held(self) -> bool:
        if self.server.held is not None:
            return self.server.downloading > 0
        return not any(self.server.answers.values())

    async def again(self) -> None:
        await self.server.until_links(0)
        assert self.server.held is not None
        assert self._told[-1][2] not in self.server.acknowledged
        self.server.held.set()
        self.server.acknowledged.clear()
        for topic, told, frame_id in self._told:
            self.server.frame("CALLBACK", topic, told, messageId=frame_id)

    async def acknowledged(self) -> None:
        for _, _, frame_id in self._told:
            await self.server.until_acknowledged(frame_id)
