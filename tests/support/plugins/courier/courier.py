"""A channel without a platform: it hands back each message that it is to send, as an event with its files."""

from __future__ import annotations

from typing import Any

from hostler_sdk.channels import Channel, ChannelEvent, ChannelMessage, ChannelTarget, Chat, Person


class Courier(Channel):
    """Hands back what it is given."""

    abilities = {"files": True, "edit": True}
    actions = {"message.react"}

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Deliver the message as an event of its chat."""
        files = []
        for attachment in message.attachments:
            pieces = [piece async for piece in self.read(attachment)]
            files.append(await self.store(b"".join(pieces), name=attachment.name))
        event = ChannelEvent(
            event_type="message.received",
            chat=Chat(chat_id=target.chat_id),
            person=Person(person_id="mirror"),
            text=message.text,
            attachments=files,
        )
        await self.deliver(event)
        return key

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Lose the connection."""
        raise ConnectionError("the connection was lost after the request")

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Return what was given; `lose` in the payload loses the outcome."""
        if "lose" in payload:
            raise ConnectionError("the connection was lost after the request")
        return {**payload, "key": key}
