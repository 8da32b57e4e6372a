"""Widgets: the entries of `widgets` in a configuration, for visitors of web pages. Pure.

A visitor has no key. What a visitor of a listed page gets is a front-end token for one conversation, which is
new, or the one that a signed visitor id names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.cors import ANY_ORIGIN, origin_mistake
from hostler_protocol._base import Strict
from hostler_protocol.content import TextElement
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest

MAX_WIDGETS = 100
MAX_ORIGINS_OF_WIDGET = 100
MAX_TITLE_CHARS = 80
MAX_GREETING_CHARS = 1_000
TOKEN_MINUTES = 15.0
"""How long a visitor's token is valid; the page gets the next one by its visitor id."""
KEY_PREFIX = "widget."
"""Begins what the tokens of a widget are made by, and no id of a key."""
VISITOR_RIGHTS = (
    "events:write",
    "runs:write",
    "conversations:read",
    "pauses:read",
    "pauses:write",
    "artifacts:read",
)
"""What a visitor does: send, stop, follow and show the conversation, answer, and fetch files. Not
`runs:read`: journals show what tools and models were asked."""
UPLOAD_RIGHT = "artifacts:write"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_COLOUR = re.compile(r"#[0-9a-f]{6}")
_DAY_SECONDS = 86_400
_encode = msgspec.json.Encoder().encode

Language = Literal["en", "zh"]
Words = str | dict[Language, str]
"""One text for all languages, or one for each."""
PerMinute = Annotated[float, msgspec.Meta(gt=0, le=100_000)]


class Widget(Strict):
    """A chat for web pages, whose script is at `/widget/NAME.js`.

    `origins`: the pages that may show it, like `https://www.example.com`; `["*"]` for any. `workspace`: that
    of the agent; null for the installation's own. `title`, `greeting`: a text, or one for each language.
    `languages`: those that it speaks; a page of none of these gets the first. `colour`: like `#1f6feb`.
    `messages_per_minute`: of one visitor; `visitors_per_minute`: new ones of one address; both also in total.
    `conversation_days`: after so many days without a visit a visitor begins a new conversation. `generation`:
    another number ends the ids of all visitors. `try_page`: whether `/widget/NAME` shows it, too.
    `visitors_approve`: whether visitors decide calls that wait for approval, where a rule names them.
    """

    name: str
    agent: str
    origins: list[str]
    workspace: str | None = None
    title: Words = ""
    greeting: Words = ""
    colour: str = "#1f6feb"
    languages: list[Language] = msgspec.field(default_factory=lambda: ["en", "zh"])
    allow_files: bool = False
    max_file_mib: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    max_message_chars: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 4_000
    messages_per_minute: PerMinute = 20.0
    total_messages_per_minute: PerMinute = 600.0
    visitors_per_minute: PerMinute = 20.0
    total_visitors_per_minute: PerMinute = 300.0
    conversation_days: Annotated[int, msgspec.Meta(ge=1, le=400)] = 30
    generation: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    try_page: bool = False
    visitors_approve: bool = False

    @property
    def path(self) -> str:
        """Where its script is."""
        return f"/widget/{self.name}.js"

    @property
    def key_id(self) -> str:
        """What its tokens are made by."""
        return KEY_PREFIX + self.name

    @property
    def rights(self) -> frozenset[str]:
        """The rights of its visitors."""
        return frozenset({*VISITOR_RIGHTS, *([UPLOAD_RIGHT] if self.allow_files else [])})

    @property
    def page_origins(self) -> tuple[str, ...]:
        """The origins of the only pages whose requests are taken; none: any."""
        return () if ANY_ORIGIN in self.origins else tuple(self.origins)

    def takes(self, origin: str) -> bool:
        """Whether pages of this origin may show it."""
        return ANY_ORIGIN in self.origins or origin in self.origins


def widget_of(key_id: str) -> str | None:
    """Return the name of the widget that this id stands for; None for the id of a key."""
    return key_id.removeprefix(KEY_PREFIX) if key_id.startswith(KEY_PREFIX) else None


def subject_of_visitor(conversation_id: str) -> str:
    """Return what the requests of all tokens of a conversation are counted by."""
    return f"visitor:{digest([conversation_id])[:32]}"


def has_ended(widget: Widget, issued_at: int, now: float) -> bool:
    """Whether a visitor id that was issued then names its conversation no more. UTC epoch seconds."""
    return issued_at + widget.conversation_days * _DAY_SECONDS <= now


def check_message(widget: Widget, envelope: EventEnvelope) -> None:
    """Raise InvalidArgumentError for a message that is too long, UnauthorizedError for what visitors may not
    send.
    """
    given = envelope.input
    if envelope.thread_id is not None:
        raise UnauthorizedError("visitors of a widget have one conversation: leave thread_id out")
    said = [one.text for one in given.contents if isinstance(one, TextElement)]
    if len(given.text or "") + sum(map(len, said)) + _chars_beside(envelope) > widget.max_message_chars:
        raise InvalidArgumentError(
            f"a message of this widget has at most {widget.max_message_chars:,} characters, with its data"
        )
    if given.tools:
        raise UnauthorizedError("visitors of a widget bring no tools: leave input.tools out")
    files = given.attachments or len(said) < len(given.contents)
    if files and not widget.allow_files:
        raise UnauthorizedError("this widget takes no files: allow_files is false")


def _chars_beside(envelope: EventEnvelope) -> int:
    """Return the characters of what an agent gets beside the text of a message."""
    name = None if envelope.actor is None else envelope.actor.actor_name
    capabilities = None if envelope.delivery is None else envelope.delivery.platform_capabilities
    return len(name or "") + sum(len(_encode(one)) for one in (envelope.data, capabilities) if one)


def widget_mistakes(widget: Widget) -> Iterator[Mistake]:
    """Yield the mistakes of an entry."""
    if not _NAME.fullmatch(widget.name):
        yield Mistake("name", f"{widget.name!r:.80} is no name: 1 to 100 letters, digits, '_', '-'")
    if not widget.agent:
        yield Mistake("agent", "is empty: name the agent that visitors talk to")
    if widget.workspace == "":
        yield Mistake("workspace", "is empty: leave it out for the installation's own workspace")
    yield from _origin_mistakes(widget.origins)
    if not _COLOUR.fullmatch(widget.colour):
        yield Mistake("colour", f"{widget.colour!r:.40} is no colour: expected one like #1f6feb")
    if not widget.languages or len(set(widget.languages)) < len(widget.languages):
        yield Mistake("languages", "expected at least one of en, zh, each once")
    for place, words, most in (
        ("title", widget.title, MAX_TITLE_CHARS),
        ("greeting", widget.greeting, MAX_GREETING_CHARS),
    ):
        texts = [words] if isinstance(words, str) else list(words.values())
        if any(len(text) > most for text in texts):
            yield Mistake(place, f"has more than {most:,} characters")


def widget_warnings(widget: Widget) -> Iterator[Mistake]:
    """Yield what an operator should know about a valid entry."""
    if ANY_ORIGIN in widget.origins:
        text = (
            "any page of the internet can show this widget and spend what its agent spends: list the origins"
        )
        yield Mistake("origins", text, "warning")
    if widget.visitors_approve:
        text = (
            "visitors without a name can approve the calls that their own messages lead to, where a rule "
            "names requester or *, as the default rule does"
        )
        yield Mistake("visitors_approve", text, "warning")


def _origin_mistakes(origins: list[str]) -> Iterator[Mistake]:
    if not origins:
        yield Mistake(
            "origins", 'list the pages that may show it, like "https://www.example.com"; "*" for any page'
        )
    if len(origins) > MAX_ORIGINS_OF_WIDGET:
        yield Mistake("origins", f"there are {len(origins):,}; at most {MAX_ORIGINS_OF_WIDGET} are possible")
    if ANY_ORIGIN in origins:
        if len(origins) > 1:
            yield Mistake("origins", "'*' is every origin: leave out the others, or '*'")
        return
    for number, origin in enumerate(origins[:MAX_ORIGINS_OF_WIDGET]):
        if (wrong := origin_mistake(origin)) is not None:
            yield Mistake(f"origins[{number}]", wrong)
