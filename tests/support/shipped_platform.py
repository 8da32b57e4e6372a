"""A platform of a shipped channel, for tests of whole hosts: its server, and its people.

Every platform has six places, chats that have nothing to do with each other, in which Ada writes and the bot
answers. What the bot does can be held up at the next step of its way, see `Hold`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from support.server_process import HostProcess

Hold = Literal["event", "send", "sent", "edited", "kept", "replied"]
"""An event that the bot reads before it is stored; a message that is not sent; one that is sent, or edited,
which the bot is not told. Of one platform each: events that the bot has only kept; a reply by a token that is
sent, which the bot is not told."""
ROOMS = 6


class Platform:
    """A platform: its server, the settings of a channel on it, what people do, and what they see."""

    name: ClassVar[str]
    edits: ClassVar[bool] = True
    buttons: ClassVar[bool] = True
    knows: ClassVar[set[Hold]] = {"send", "sent"}
    """Where it can be known after a death whether a message was sent."""
    own: ClassVar[Hold | None] = None
    """A step that only this platform has. It has a seventh place for it."""
    unread: ClassVar[str] = "not stored"
    """How the bot's answer begins to what it was held up at while it read it."""
    config: dict[str, Any]
    secrets: ClassVar[tuple[str, ...]] = ("token",)
    ports: list[int]
    host: HostProcess
    """It has the bot."""

    def say(self, place: int, text: str) -> None:
        """Ada writes."""
        raise NotImplementedError

    def seen(self, place: int) -> list[str]:
        """What the bot has written in a place, as it is now."""
        raise NotImplementedError

    def hold(self, step: Hold, place: int) -> None:
        """Hold up the bot's next message in a place, or event of it, at a step.

        Those of other places are not: where a message was held up, the bot goes on after a while without an
        answer, and a slow machine comes to the next step later than that.
        """
        raise NotImplementedError

    def say_held(self, place: int, text: str) -> None:
        """Ada writes something that the bot is held up at while it reads it."""
        raise NotImplementedError

    def say_own(self, place: int) -> list[str]:
        """Ada writes what leads to the step that only this platform has; return what the bot is to answer."""
        raise NotImplementedError

    def choose(self, place: int, number: int) -> None:
        """Ada makes a choice of the question in a place, by its number from 1."""
        self.say(place, str(number))

    def held(self) -> bool:
        """Whether the bot is held up where it was to be."""
        raise NotImplementedError

    async def again(self) -> None:
        """Tell the bot again what it was told, as the platform does unless it knows that it arrived."""
        raise NotImplementedError

    async def acknowledged(self) -> None:
        """Wait until the bot has acknowledged all that it was told again, if the platform wants it to."""
