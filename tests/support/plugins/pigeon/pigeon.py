"""A channel to Pigeon, an invented post office: letters are fetched and sent by HTTP."""

import asyncio
import json
import urllib.error
import urllib.request

from hostler_sdk.channels import Channel, ChannelEvent, Chat, NotSent, Person


class Pigeon(Channel):
    """Pigeon, where every message is a letter."""

    abilities = {"repeat": "client_id", "max_message": 280}
    config = [
        {"name": "url", "type": "string", "required": True},
        {"name": "stamp", "type": "secret", "required": True},
    ]

    def _call(self, path, body=None):
        request = urllib.request.Request(
            self.settings["url"] + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Stamp": self.settings["stamp"]},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    async def open(self):
        me = await asyncio.to_thread(self._call, "/me")
        return Person(person_id=me["loft"], name=me["name"])

    async def run(self):
        while True:
            letters = await asyncio.to_thread(self._call, f"/letters?after={self.state or 0}")
            for one in letters:
                await self.deliver(
                    ChannelEvent(
                        event_type="message.received",
                        event_id=str(one["no"]),
                        chat=Chat(chat_id=one["from"], kind="private"),
                        person=Person(person_id=one["from"]),
                        text=one["text"],
                        addressed=["private"],
                    ),
                    state=one["no"],
                )
            if not letters:
                await asyncio.sleep(0.5)

    async def send(self, target, message, *, key, attempt):
        letter = {"to": target.chat_id, "text": message.text, "seal": key}
        try:
            return str((await asyncio.to_thread(self._call, "/letters", letter))["no"])
        except urllib.error.HTTPError as error:
            wait = error.headers.get("Retry-After")
            why, after = str(error), float(wait) if wait else None
            raise NotSent(why, final=error.code == 400, retry_after=after) from error
