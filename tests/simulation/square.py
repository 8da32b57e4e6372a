"""A simulated chat platform: what people post in its chats, and what bots say there.

It keeps all posts, gives them to whoever asks for those after a number, and forgets nothing that it was told.
"""

from __future__ import annotations

from dataclasses import dataclass, field

READING, SAYING = "square", "square, said"
"""What asks for posts, and what says something: each has faults of its own."""
READING_ILLS = ("down", "status 429", "hang", "torn", "late")
SAYING_ILLS = ("down", "status 429", "status 500", "status 403", "hang", "lost", "torn", "late")


@dataclass(frozen=True, slots=True)
class Post:
    """What somebody posted."""

    number: int
    chat: str
    person: str
    text: str
    press: tuple[int, str] | None = None
    """The number of what a bot said, and the value of the button below it that somebody pressed."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a bot said, when it arrived. `key`: what its sender named it by."""

    at: float
    number: int
    chat: str
    text: str
    key: str


@dataclass
class Square:
    """The chats of one life."""

    posts: list[Post] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    edits: dict[int, list[tuple[float, str]]] = field(default_factory=dict)
    """What was said, by number: when it became what, after the first text."""
    buttons: dict[int, list[str]] = field(default_factory=dict)
    """The values of the buttons below what was said, by number, as they are now."""

    def post(self, chat: str, person: str, text: str, press: tuple[int, str] | None = None) -> Post:
        """Post something, or press a button."""
        post = Post(len(self.posts) + 1, chat, person, text, press)
        self.posts.append(post)
        return post

    def after(self, number: int) -> list[Post]:
        """Return what was posted after a number."""
        return self.posts[number:]

    def say(self, at: float, bot: str, chat: str, text: str, key: str, *, once: bool) -> int:
        """Let a bot say something; `once`: the same key is said once. Return its number.

        Everybody in the chat gets it, its bot too.
        """
        known = next((one for one in self.said if one.key == key), None) if once else None
        if known is not None:
            return known.number
        post = self.post(chat, bot, text)
        self.said.append(Said(at, post.number, chat, text, key))
        return post.number

    def edit(self, at: float, number: int, text: str, buttons: list[str]) -> None:
        """Let a bot change what it said."""
        self.edits.setdefault(number, []).append((at, text))
        self.buttons[number] = buttons

    def shown(self, one: Said) -> str:
        """Return what is seen now of what was said."""
        return self.edits[one.number][-1][1] if one.number in self.edits else one.text

    def find(self, key: str) -> int | None:
        """Return the number of what was said under a key, or None."""
        return next((one.number for one in self.said if one.key == key), None)
