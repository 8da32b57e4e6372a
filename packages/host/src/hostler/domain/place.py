"""Where in a workspace an event, a run, a message or an artifact belongs."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol


class HasPlace(Protocol):
    """A value that carries the three ids of its place."""

    @property
    def bot_id(self) -> str | None:
        """The bot it came through."""
        ...

    @property
    def conversation_id(self) -> str | None:
        """Its conversation."""
        ...

    @property
    def thread_id(self) -> str | None:
        """Its thread within the conversation."""
        ...


class Place(NamedTuple):
    """A bot, a conversation and a thread; each may be None."""

    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None

    @classmethod
    def of(cls, placed: HasPlace) -> Place:
        """Return the place of an envelope, a grant, a run, an event or a message."""
        return cls(placed.bot_id, placed.conversation_id, placed.thread_id)


NOWHERE: Final = Place()
"""The place of things that belong to no conversation."""
