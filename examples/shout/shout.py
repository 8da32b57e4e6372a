"""A channel to Shout, an invented chat whose server speaks one JSON object per line over TCP."""

import asyncio
import json

from hostler_sdk.channels import Channel, ChannelEvent, Chat, NotSent, Person
from hostler_sdk.network import open_connection


class Shout(Channel):
    """Shout, the chat where everything is said aloud."""

    abilities = {"edit": True, "repeat": "client_id", "max_message": 500}
    config = [
        {"name": "host", "type": "string", "default": "127.0.0.1"},
        {"name": "port", "type": "integer", "required": True},
        {"name": "token", "type": "secret", "required": True},
    ]
    writer = None

    async def open(self):
        self.answers = {}
        address = self.settings["host"], self.settings["port"]
        self.reader, self.writer = await open_connection(*address)
        hello = {"token": self.settings["token"], "after": self.state or 0}
        self.writer.write(json.dumps(hello).encode() + b"\n")
        welcome = json.loads(await self.reader.readline() or b'{"error": "no answer"}')
        if "error" in welcome:
            raise ConnectionError(welcome["error"])
        return Person(person_id=welcome["you"])

    async def run(self):
        while line := await self.reader.readline():
            said = json.loads(line)
            if "re" not in said:  # Shout may forget it as soon as `deliver` returns
                await self.deliver(event_of(said), state=said["number"])
            elif answer := self.answers.pop(said["re"], None):
                answer.set_result(said)

    async def close(self):
        for answer in self.answers.values():
            answer.cancel()  # nobody knows whether Shout got these: the host sends them again
        if self.writer is not None:
            self.writer.close()

    async def ask(self, key, **request):
        self.answers[key] = asyncio.get_running_loop().create_future()
        self.writer.write(json.dumps({"re": key, **request}).encode() + b"\n")
        answer = await self.answers[key]
        if "error" in answer:
            raise NotSent(answer["error"], final="wait" not in answer, retry_after=answer.get("wait"))
        return str(answer["number"])

    async def send(self, target, message, *, key, attempt):
        return await self.ask(key, room=target.chat_id, say=message.text)

    async def edit(self, target, message_id, message, *, last):
        await self.ask(f"edit {message_id}", room=target.chat_id, change=message_id, say=message.text)


def event_of(said):
    return ChannelEvent(
        event_type="message.received",
        event_id=str(said["number"]),
        chat=Chat(chat_id=said["room"], kind="group"),
        person=Person(person_id=said["by"], name=said["by"], is_bot=said["bot"]),
        text=said["said"],
    )
