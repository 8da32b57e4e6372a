"""Channels to a simulated chat, by what can be known of a message of which nobody heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from hostler_sdk.channels import (
    Channel,
    ChannelEvent,
    ChannelFound,
    ChannelMessage,
    ChannelTarget,
    Chat,
    NotSent,
    Person,
)
from simulation.outside import ServiceError, outside
from simulation.square import READING, SAYING, Post, Square

T = TypeVar("T")
POLL_SECONDS = 0.2
LONGEST_POLL_SECONDS = 3.0
MAX_MESSAGE = 60
FORBIDDEN, TOO_MANY = 403, 429


class Forgetful(Channel):
    """The platform takes no key, and cannot be searched."""

    abilities: ClassVar[Mapping[str, Any]] = {"max_message": MAX_MESSAGE}
    config = [{"name": "bot", "type": "string", "required": True}]
    once = False

    async def open(self) -> Person:
        """Reach the platform."""
        await ask(READING, lambda square: None)
        return Person(person_id=self.settings["bot"])

    async def run(self) -> None:
        """Ask for what is new, less often while there is nothing."""
        wait, place = POLL_SECONDS, self.state or 0
        while True:
            posts = await ask(READING, partial(Square.after, number=place))
            for post in posts:
                await self.deliver(event_of(post), state=post.number)
                place = post.number
            wait = POLL_SECONDS if posts else min(wait * 1.5, LONGEST_POLL_SECONDS)
            await asyncio.sleep(wait)

    async def send(self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int) -> str:
        """Say something."""
        bot, loop = self.settings["bot"], outside().loop

        def say(square: Square) -> int:
            number = square.say(loop.time(), bot, target.chat_id, message.text or "", key, once=self.once)
            if message.buttons:
                square.buttons.setdefault(number, values_of(message))
            return number

        try:
            return str(await ask(SAYING, say))
        except ServiceError as error:
            raise refusal(error, final=error.status == FORBIDDEN) from error


class Keyed(Forgetful):
    """The platform takes a key once."""

    abilities = {"max_message": MAX_MESSAGE, "repeat": "client_id"}
    once = True


class Rich(Keyed):
    """The platform takes a key once, shows buttons, and lets bots change what they said."""

    abilities = {
        **Keyed.abilities,
        "max_message": 2 * MAX_MESSAGE,
        "edit": True,
        "buttons": True,
        "edit_seconds": 0.2,
    }

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Change what was said."""
        loop = outside().loop
        text, buttons = message.text or "", values_of(message)
        try:
            await ask(SAYING, lambda square: square.edit(loop.time(), int(message_id), text, buttons))
        except ServiceError as error:
            raise refusal(error, final=False) from error


class Looking(Forgetful):
    """The platform can be searched."""

    abilities = {"max_message": MAX_MESSAGE, "repeat": "look_up"}

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look for what was said under the key."""
        number = await ask(SAYING, partial(Square.find, key=key))
        return ChannelFound(found=number is not None, message_id=None if number is None else str(number))


def event_of(post: Post) -> ChannelEvent:
    """Return what somebody posted, or that they pressed a button."""
    chat, person = Chat(chat_id=post.chat, kind="group"), Person(person_id=post.person)
    if post.press is not None:
        return ChannelEvent(
            event_type="interaction.submitted",
            event_id=str(post.number),
            chat=chat,
            person=person,
            message_id=str(post.press[0]),
            data={"value": post.press[1]},
        )
    return ChannelEvent(
        event_type="message.received",
        event_id=str(post.number),
        chat=chat,
        person=person,
        message_id=str(post.number),
        text=post.text,
    )


def values_of(message: ChannelMessage) -> list[str]:
    """Return the values of the buttons of a message."""
    return [button.value for row in message.buttons for button in row]


def refusal(error: ServiceError, *, final: bool) -> Exception:
    """Return what the host is told of an error of the platform; the same error: nobody knows."""
    if error.status is None and "reached" not in str(error):
        return error
    return NotSent(str(error), final=final, retry_after=2.0 if error.status == TOO_MANY else None)


async def ask(service: str, work: Callable[[Square], T]) -> T:
    """Ask the platform."""
    out = outside()
    found: T = await out.ask(service, lambda: work(out.square), out.fault(service))
    return found
