"""Channels of the platform in `support/chat_platform.py`, and a runner that says what it is told.

They differ in what the platform lets them know of a message whose answer was lost: it takes a key once
(`keyed`), can be searched (`searched`), or neither (`blind`).
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import time
from pathlib import Path

import msgspec

from hostler_sdk import HostError, RunContext, Runner, action, delta, message
from hostler_sdk.channels import (
    Channel,
    ChannelEvent,
    ChannelFound,
    ChannelResponse,
    Chat,
    NotSent,
    Person,
)
from hostler_sdk.channels.attachments import FileBounds, RemoteFile, fetch


class Echo(Runner):
    """Says what it is told, with the files that came with it. `fail` fails; `twice` makes two messages."""

    capabilities = {"resumable"}
    permissions = {"actions": ["*"], "tools": ["call"], "schedules": ["create", "list", "delete"]}

    async def run(self, ctx: RunContext):
        text = ctx.input.text or ""
        if text.startswith("{"):
            asked = json.loads(text)
            if "grow" in asked:
                async for result in self.grow(asked):
                    yield result
                return
            if "ask" in asked:
                decision = await ctx.ask(**asked["ask"])
                yield message(f"{decision.decision} {json.dumps(decision.values)} {decision.result}"[:99])
                return
            async for result in self.act(ctx, asked):
                yield result
            return
        if text.startswith("["):
            for asked in json.loads(text):
                async for result in self.act(ctx, asked):
                    yield result
            return
        if text == "fail":
            raise RuntimeError("as it was told")
        if text == "twice":
            yield message("once")
        yield message(text or "(files)", [ref.artifact_id for ref in ctx.input.attachments])

    async def act(self, ctx, asked):
        """Have an action done, and say what became of it: as an answer, later, or as a tool."""
        if asked.pop("later", False):
            yield action(asked["action"], asked.get("target"), asked.get("payload"))
            yield message("asked")
        elif tool := asked.pop("tool", None):
            yield message(json.dumps(await ctx.tools.call(tool, asked)))
        elif remind := asked.pop("remind", None):
            try:
                made = await ctx.schedules.create(remind, **asked)
                yield message(f"made {made.name}")
            except HostError as error:
                yield message(f"{error.code} {error.message}"[:99])
        else:
            try:
                reply = await ctx.actions.request(**asked)
                yield message(f"{reply.outcome} {json.dumps(reply.result)} {reply.reason or ''}"[:99])
            except HostError as error:
                yield message(f"{error.code} {error.message}"[:99])

    async def grow(self, asked):
        """Say an answer in pieces, one more each time that the file `go` has a greater number."""
        go, pieces = Path(asked["go"]), asked["grow"]
        for number, piece in enumerate(pieces, 1):
            yield delta(piece)
            while not go.exists() or int(go.read_text() or 0) < number:
                await asyncio.sleep(0.01)
        if asked.get("end") == "fail":
            raise RuntimeError("as it was told")
        yield message("".join(pieces), asked.get("files", []))


class Blind(Channel):
    """A chat that forgets who sent what."""

    abilities = {"files": True, "max_message": 100}
    actions = {
        "message.react",
        "message.pin",
        "member.kick",
        "member.mute",
        "group.info",
        "typing.start",
        "platform.call",
    }
    config = [
        {"name": "port", "type": "integer", "required": True},
        {"name": "token", "type": "secret", "required": True},
        {"name": "trap", "type": "string"},
        {"name": "acts", "type": "string"},
        {"name": "fetched", "type": "string"},
    ]
    writer = None
    keyed = False

    async def open(self):
        self.answers, self.numbers = {}, itertools.count()
        address = "127.0.0.1", self.settings["port"]
        self.reader, self.writer = await asyncio.open_connection(*address, limit=2**26)
        self._write(token=self.settings["token"], after=self.state or 0)
        welcome = json.loads(await self.reader.readline() or b'{"error": "no answer"}')
        if "error" in welcome:
            raise ConnectionError(welcome["error"])
        return Person(person_id=welcome["you"], name="Bot", is_bot=True)

    async def run(self):
        while line := await self.reader.readline():
            said = json.loads(line)
            if "re" in said:
                if answer := self.answers.pop(said["re"], None):
                    answer.set_result(said)
            else:
                event = await self.event_of(said)
                self.spring("event")
                asyncio.get_running_loop().call_later(0.002, self.spring, "delivering")
                answer = await self.deliver(event, state=said["number"])
                if answer.notice is not None:
                    self._write(tell=answer.notice, to=said["by"])
                self.spring("delivered")

    async def close(self):
        for answer in self.answers.values():
            answer.cancel()
        if self.writer is not None:
            self.writer.close()

    def _write(self, **request):
        self.writer.write(json.dumps(request).encode() + b"\n")

    async def ask(self, **request):
        number = next(self.numbers)
        self.answers[number] = asyncio.get_running_loop().create_future()
        self._write(re=number, **request)
        if "say" in request:
            self.spring("sending")
        answer = await self.answers[number]
        if "error" in answer:
            raise NotSent(answer["error"], final="wait" not in answer, retry_after=answer.get("wait"))
        return answer

    def buttons_of(self, message):
        return [[{"label": one.label, "value": one.value} for one in row] for row in message.buttons]

    async def send(self, target, message, *, key, attempt):
        files = []
        for ref in message.attachments:
            content = b"".join([piece async for piece in self.read(ref)])
            files.append({"name": ref.name, "content": base64.b64encode(content).decode()})
        said = {"chat": target.chat_id, "say": message.text, "files": files, "answers": target.reply_to}
        said["buttons"] = self.buttons_of(message)
        self.spring("send")
        answer = await self.ask(**said, key=key, once=self.keyed)
        self.spring("sent")
        return str(answer["number"])

    async def act(self, action, target, payload, *, key):
        """Note the action in a file. Its `reason` or `emoji` says how the platform behaves."""
        mood = payload.get("reason") or payload.get("emoji")
        if mood == "refuse":
            raise NotSent("the bot is no admin here", final=True)
        self.spring("act")
        done = Path(self.settings["acts"])
        with done.open("a") as file:
            file.write(json.dumps({"action": action, **target, **payload, "key": key}) + "\n")
        self.spring("acted")
        if mood == "lose" or (mood == "lose once" and len(done.read_text().splitlines()) == 1):
            raise ConnectionError("the connection was lost after the request")
        if mood == "hang":
            await asyncio.sleep(3600)
        return {"did": action, "more": "x" * 1_100_000} if mood == "much" else {"did": action}

    def spring(self, step):
        """Stop here, for the host to be killed, if a trap is set for this step: a file that names it."""
        trap = Path(self.settings.get("trap") or "/nowhere")
        if trap.exists() and trap.read_text() == step:
            trap.unlink()
            time.sleep(60)  # it ends with the host

    async def event_of(self, said):
        if press := said.get("press"):
            return ChannelEvent(
                event_type="interaction.submitted",
                event_id=str(said["number"]),
                message_id=str(press["of"]),
                chat=Chat(chat_id=said["chat"], kind="group"),
                person=Person(person_id=said["by"], name=said["by"].title()),
                data={"value": press["value"]},
            )
        event = self.bare_event_of(said)
        if self.settings.get("fetched"):
            files = [self.remote(one) for one in said["files"]]
            refs = (await fetch(self, files, FileBounds(), event=event)).attachments
        else:
            refs = [
                await self.store(base64.b64decode(one["content"]), name=one["name"], mime_type=one["type"])
                for one in said["files"]
            ]
        return msgspec.structs.replace(event, attachments=refs)

    def remote(self, one):
        """A file, whose fetching is noted in the file that the setting `fetched` names."""

        async def content():
            with Path(self.settings["fetched"]).open("a") as file:
                file.write(one["name"] + "\n")
            yield base64.b64decode(one["content"])

        return RemoteFile(content, one["name"], one["type"])

    def bare_event_of(self, said):
        return ChannelEvent(
            event_type=said.get("event") or "message.received",
            event_id=str(said["number"]),
            message_id=str(said["number"]),
            chat=Chat(chat_id=said["chat"], kind=said.get("kind", "group"), title="A room"),
            person=Person(person_id=said["by"], name=said["by"].title(), is_bot=said["bot"]),
            text=said["said"],
            reply_to=None if said.get("reply_to") is None else str(said["reply_to"]),
            addressed=["mention"],
        )


class Keyed(Blind):
    """A chat that takes a message of one key once."""

    abilities = {**Blind.abilities, "repeat": "client_id"}
    keyed = True


class Searched(Blind):
    """A chat that can be searched for a message."""

    abilities = {**Blind.abilities, "repeat": "look_up"}

    async def find(self, target, message, *, key, since):
        answer = await self.ask(find=key)
        number = answer["found"]
        return ChannelFound(found=number is not None, message_id=None if number is None else str(number))


class Called(Channel):
    """A chat whose platform calls the host. A call is what was said, with the bot's token in `x-token`.

    `answer` in it is answered in place of 200; `mood` says how the channel behaves.
    """

    abilities = {"webhook": True, "max_message": 100}
    config = [
        {"name": "port", "type": "integer", "required": True},
        {"name": "token", "type": "secret", "required": True},
    ]

    async def open(self):
        return Person(person_id="bot-1", name="Bot", is_bot=True)

    async def send(self, target, message, *, key, attempt):
        return None

    async def request(self, request):
        if request.headers.get("x-token") != self.settings["token"]:
            return ChannelResponse(status=401)
        if request.method != "POST":
            seen = {"path": request.path} if request.path else request.query
            return ChannelResponse(body_base64=base64.b64encode(json.dumps(seen).encode()).decode())
        said = json.loads(base64.b64decode(request.body_base64))
        match said.get("mood"):
            case "fail":
                raise RuntimeError(f"the token is {self.settings['token']}")
            case "hang":
                await asyncio.sleep(3600)
            case "mirror":
                body = json.dumps({"headers": request.headers, "query": request.query}).encode()
                return ChannelResponse(body_base64=base64.b64encode(body).decode())
        if "answer" in said:
            return ChannelResponse(**said["answer"])
        person = said.get("by", "ann")
        await self.deliver(
            ChannelEvent(
                event_type="message.received",
                event_id=said["id"],
                chat=Chat(chat_id=said.get("chat", "room"), kind=said.get("kind", "group")),
                person=Person(person_id=person, is_bot=said.get("bot", False)),
                text=said["text"],
            )
        )
        if said.get("mood") == "late":
            await asyncio.sleep(3600)
        return ChannelResponse(headers={"content-type": "application/json"}, body_base64="e30=")


class Rich(Keyed):
    """A chat with buttons, in which what was said can be changed, and which shows who writes."""

    abilities = {
        **Keyed.abilities,
        "edit": True,
        "buttons": True,
        "typing": True,
        "edit_seconds": 0.02,
        "max_message": 400,
    }

    async def act(self, action, target, payload, *, key):
        if action == "typing.start":
            self._write(typing=target["chat_id"])
            return None
        return await super().act(action, target, payload, key=key)

    async def edit(self, target, message_id, message, *, last):
        self.spring("edit" if last else "growing")
        buttons = self.buttons_of(message)
        await self.ask(chat=target.chat_id, change=int(message_id), say=message.text, buttons=buttons)
        self.spring("edited" if last else "grown")


class Wide(Keyed):
    """A chat of long messages, without buttons and edits."""

    abilities = {**Keyed.abilities, "max_message": 2000}


class Dim(Rich):
    """A chat as `Rich`, which forgets who sent what."""

    abilities = {**Rich.abilities, "repeat": "unknown"}
    keyed = False
