"""LINE and WeCom, which call the bot's address, as platforms for tests of whole hosts."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from typing import Any, ClassVar

import httpx

from support import line_desk, wecom_desk
from support import line_server as line
from support.channel_process import SECONDS
from support.line_server import LineServer
from support.loopback import NO_CERTIFICATES
from support.shipped_platform import ROOMS, Hold, Platform
from support.wecom_envelopes import call_of, message, press
from support.wecom_server import WecomServer, visible

AGAIN_SECONDS = 0.5
"""After what is not answered, a platform calls again; the host takes so many calls a second, and no more."""
_LATER = {429, 502, 503, 504}
"""Statuses that say that the event has not arrived."""


class Called(Platform):
    """A platform that calls the host's address, and calls again while it has no answer. It has no edits."""

    edits = False

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._told: list[Any] = []
        self._calling: set[asyncio.Task[None]] = set()

    def request_of(self, told: Any, *, again: bool) -> dict[str, Any]:
        """A call that brings an event: `body_base64`, and perhaps `headers` and `query`."""
        raise NotImplementedError

    def _tell(self, *told: Any) -> None:
        """Call with events, one after the other."""
        self._told += told
        self._call(*told, again=False)

    def _call(self, *told: Any, again: bool) -> None:
        task = self._group.create_task(self._until_all_answered(told, again=again))
        self._calling.add(task)
        task.add_done_callback(self._calling.discard)

    async def _until_all_answered(self, told: Iterable[Any], *, again: bool) -> None:
        for one in told:
            await self._until_answered(one, again=again)

    async def _until_answered(self, told: Any, *, again: bool) -> None:
        async with httpx.AsyncClient(timeout=SECONDS, verify=NO_CERTIFICATES) as client:
            while True:
                await self.host.up.wait()
                status = await self._status_of(client, self.request_of(told, again=again))
                if status == 200:
                    return
                assert status is None or status in _LATER, f"the host answers {status}"
                again = True
                await asyncio.sleep(AGAIN_SECONDS)

    async def _status_of(self, client: httpx.AsyncClient, request: dict[str, Any]) -> int | None:
        """The status of the answer, or None if the host has died meanwhile."""
        try:
            answer = await client.post(
                f"{self.host.url}/v1/channels/chat/webhook",
                params=request.get("query"),
                headers=request.get("headers"),
                content=base64.b64decode(request["body_base64"]),
            )
        except httpx.TransportError:
            return None
        return answer.status_code

    async def again(self) -> None:
        """Call with everything again, as when the answers were lost on their way."""
        assert self._calling, "an event was acknowledged that was not stored"
        for told in self._told:
            self._call(told, again=True)

    async def acknowledged(self) -> None:
        while self._calling:
            await asyncio.wait(self._calling)


class Line(Called):
    """A LINE account. Its pushes have keys; a reply by a token was sent if the token is refused soon after.

    The bot is not reached at first: what is sent again has no token that counts, and is answered by pushes.
    """

    name, secrets = "line", ("token", "channel-secret")
    own: ClassVar[Hold] = "replied"
    unread = "(files)"

    def __init__(self, server: LineServer, group: asyncio.TaskGroup) -> None:
        super().__init__(group)
        self.server, self.ports = server, [server.port]
        self.config = line_desk.config_of(server)

    def request_of(self, told: Any, *, again: bool) -> dict[str, Any]:
        context = {"deliveryContext": {"isRedelivery": True}} if again else {}
        return self.server.webhook(told | context)

    def _source(self, place: int) -> dict[str, Any]:
        return {"type": "group", "groupId": line.ROOMS[place], "userId": line.ADA}

    def _tell(self, *told: Any) -> None:
        super()._tell(*(one | {"deliveryContext": {"isRedelivery": True}} for one in told))

    def say(self, place: int, text: str) -> None:
        self._tell(self.server.message(source=self._source(place), text=text))

    def seen(self, place: int) -> list[str]:
        found = [one["message"] for one in self.server.sent if one["to"] == line.ROOMS[place]]
        return [one.get("text") or one["altText"] for one in found]

    def hold(self, step: Hold, place: int) -> None:
        call = {"event": "content", "replied": f"reply {line.ROOMS[place]}"}.get(
            step, f"push {line.ROOMS[place]}"
        )
        self.server.answers[call] = ["held" if step in {"event", "send"} else "mute"]

    def say_held(self, place: int, text: str) -> None:
        image = self.server.message("image", self._source(place), contentProvider={"type": "line"})
        self.server.files[image["message"]["id"]] = b"x"
        self._tell(image)

    def say_own(self, place: int) -> list[str]:
        super()._tell(self.server.message(source=self._source(place), text="by its token"))
        return ["by its token"]

    def choose(self, place: int, number: int) -> None:
        asked = [one for one in self.server.sent if one["to"] == line.ROOMS[place]][-1]["message"]
        buttons = [one["action"] for one in asked["contents"]["body"]["contents"] if one["type"] == "button"]
        token = self.server.reply_token(line.ROOMS[place])
        postback = {"data": buttons[number - 1]["data"]}
        self._tell(self.server.event("postback", self._source(place), replyToken=token, postback=postback))

    def held(self) -> bool:
        return not any(self.server.answers.values())


class WeCom(Called):
    """An application of WeCom, which drops repetitions. What has a file, and what is behind that, is kept."""

    name, secrets = "wecom", ("secret", "callback-token", "callback-aes-key")
    own: ClassVar[Hold] = "kept"

    def __init__(self, server: WecomServer, group: asyncio.TaskGroup) -> None:
        super().__init__(group)
        self._step: Hold | None = None
        self.server, self.ports = server, [server.port]
        self.config = wecom_desk.config_of(server)
        self.people = [f"ada{number}" for number in range(ROOMS + 1)]
        server.members |= dict.fromkeys(self.people, "Ada")

    def request_of(self, told: Any, *, again: bool) -> dict[str, Any]:
        return call_of(told) | {"headers": {"content-type": "text/xml"}}

    def say(self, place: int, text: str) -> None:
        self._tell(message(user=self.people[place], Content=text))

    def _messages(self, place: int) -> list[dict[str, Any]]:
        return [one for one in self.server.delivered if one["touser"] == self.people[place]]

    def seen(self, place: int) -> list[str]:
        found: list[str] = []
        for one in self._messages(place):
            told = one[kind := one["msgtype"]]
            if "media_id" in told:
                found[-1] += f" with {kind}"
            else:
                found.append(visible(told.get("content") or told["main_title"]["title"]))
        return found

    def hold(self, step: Hold, place: int) -> None:
        self._step = step
        call = {"event": f"user/get {self.people[place]}", "kept": "media/get"}.get(
            step, f"message/send {self.people[place]}"
        )
        self.server.answers[call] = ["silent" if step in {"sent", "edited"} else "held"]

    def say_held(self, place: int, text: str) -> None:
        self.say(place, text)

    def say_own(self, place: int) -> list[str]:
        self.server.media["m"] = (b"\xff\xd8\xff image", "image/jpeg", "m.jpg")
        file = message("image", self.people[place], MediaId="m", PicUrl="http://p")
        # once they are acknowledged they never come again
        self._call(file, message(user=self.people[place], Content="behind the file"), again=False)
        return ["(files) with image", "behind the file"]

    def choose(self, place: int, number: int) -> None:
        card = self._messages(place)[-1]["template_card"]
        code = f"code-{self.people[place]}"
        self.server.codes.add(code)
        key = card["button_list"][number - 1]["key"]
        self._tell(press(key, self.people[place], task=card["task_id"], code=code))

    def held(self) -> bool:
        is_answered = not self._calling or self._step != "kept"
        return is_answered and not any(self.server.answers.values())
