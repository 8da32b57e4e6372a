"""Channels: configured connections to accounts of chat platforms, and which of their events are let in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from hostler.domain.action_actors import CHANNEL_SUBJECT
from hostler.domain.config_mistakes import Mistake, key_place
from hostler.domain.name_patterns import matches
from hostler.domain.secret_refs import is_reference, reference_mistake
from hostler.domain.suggestions import did_you_mean
from hostler_protocol._base import Strict
from hostler_protocol.channels import ChannelEvent, ChannelManifest, Person
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.limits import MAX_UPLOAD_BYTES, MIB
from hostler_protocol.manifest import FormItem

MAX_CHANNELS = 1_000
"""Entries of `channels`: each is one connection of a plugin."""
MAX_LISTED = 10_000
"""People, or chats, of one list."""
MAX_ROLES = 100
MAX_ROLE_CHARS = 100
MAX_ASK_IN = 10
"""Chats in which the questions of one agent are shown: each is a message, and an edit of it."""
MAX_CHAT_CHARS = 512
MAX_FAILURE_CHARS = 1_000
MAX_FILES_PER_EVENT = 32
DEFAULT_FILE_BYTES = 32 * MIB
"""A photo or a voice message has a few MiB; larger files are documents that few agents read."""
SUBJECT_PREFIX = CHANNEL_SUBJECT
"""Subjects that begin so are channels: runs of such a requester are answered in the chat."""
PERSON_PREFIX = "person:"
"""Subjects that begin so are people as a channel names them: `person:CHANNEL/ID`."""
MESSAGE = "message.received"
CHANNEL_EVENT_TYPES = frozenset(
    {
        MESSAGE,
        "message.edited",
        "message.recalled",
        "message.reaction_added",
        "message.reaction_removed",
        "group.member_joined",
        "group.member_left",
        "group.bot_invited",
        "group.bot_removed",
        "friend.request_received",
        "friend.added",
        "command.invoked",
        "interaction.submitted",
    }
)
"""The event types of channels; others are `platform.<name>`."""
ADDRESSED_EVENTS = ("message.received", "interaction.submitted", "command.invoked")
"""What people do for an answer of the bot."""
FAILURE_TEXT = "Something went wrong, and this could not be answered."
OnDoubt = Literal["send_again", "leave"]
Streaming = Literal["edits", "whole"]
IgnoredBecause = Literal["own", "bot", "blocked", "not_allowed"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class ChatPlace(Strict):
    """A chat of a configured channel, or a thread of it, by the platform's ids."""

    channel: str
    chat_id: str
    thread_id: str | None = None


class ChannelAccess(Strict):
    """People and chats, by the platform's ids."""

    people: list[str] = []
    chats: list[str] = []

    def names(self, event: ChannelEvent) -> bool:
        """Whether the event's person or chat is listed."""
        return (event.person is not None and event.person.person_id in self.people) or (
            event.chat is not None and event.chat.chat_id in self.chats
        )


class ChannelEntry(Strict):
    """A connection to one account of a chat platform.

    `channel`: `plugin:author/name/channel`. `config`: the values of the channel's form; secrets are
    references. `agent`: who gets the events of the types and patterns of `agent_events`; None, and for all
    others: the agents whose event types, scope and filters match.
    `allow`: if it lists anything, only the listed people, and everybody in the listed chats, are let in;
    `block` goes before it. `allow_bots`: messages of other bots are let in, which may answer each other
    without end. `on_doubt`: what becomes of a message of which nobody can know whether it was sent: it is
    sent again, or left to the operator. `failure_text`: sent where a run has failed; "": nothing is.
    `max_file_bytes` and `file_types` (MIME types and patterns like `image/*`; empty: all) bound what files
    are taken from the platform. `actions`: names and patterns of the platform actions that may be carried out
    through it; None: all that its plugin can do. `roles`: people by the roles that `action_actors` of agents
    name; approvals know nothing of them. `ask_in_chat`: approvals and questions of its runs are shown
    in the chat, and decided there too. `streaming`: answers grow by edits, where its plugin can edit; or they
    are sent once they are whole. `pairing`: whoever is not listed is let in once an operator has confirmed
    the code that they are given, or they are bound to somebody who is known.
    """

    name: str
    channel: str
    config: dict[str, Any] = {}
    agent: str | None = None
    agent_events: list[str] = msgspec.field(default_factory=lambda: [*ADDRESSED_EVENTS])
    allow: ChannelAccess = ChannelAccess()
    block: ChannelAccess = ChannelAccess()
    pairing: bool = False
    allow_bots: bool = False
    on_doubt: OnDoubt = "leave"
    failure_text: Annotated[str, msgspec.Meta(max_length=MAX_FAILURE_CHARS)] = FAILURE_TEXT
    max_file_bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_UPLOAD_BYTES)] = DEFAULT_FILE_BYTES
    file_types: list[str] = []
    actions: list[str] | None = None
    roles: dict[str, list[str]] = {}
    ask_in_chat: bool = True
    streaming: Streaming = "edits"
    enabled: bool = True

    @property
    def plugin_key(self) -> str:
        """The plugin, `author/name`. ValueError if `channel` has another form."""
        return split_runner_id(self.channel)[0]

    @property
    def channel_name(self) -> str:
        """The name in the plugin's manifest. ValueError if `channel` has another form."""
        return split_runner_id(self.channel)[1]

    @property
    def subject(self) -> str:
        """Who sends the channel's events."""
        return SUBJECT_PREFIX + self.name

    def agent_for(self, event_type: str) -> str | None:
        """Return the agent that gets an event of this type whatever its own event types are, or None."""
        return self.agent if any(matches(pattern, event_type) for pattern in self.agent_events) else None

    def roles_of(self, person_id: str) -> frozenset[str]:
        """Return the roles that the entry gives to a person."""
        return frozenset(role for role, people in self.roles.items() if person_id in people)


def channel_mistakes(entry: ChannelEntry) -> Iterator[Mistake]:
    """Yield the mistakes of an entry that can be found without its plugin."""
    if not _NAME.fullmatch(entry.name):
        yield Mistake(
            "name",
            f"{entry.name!r:.80} is no name: 1 to 100 letters, digits, '_', '.', '-', the first no sign",
        )
    try:
        split_runner_id(entry.channel)
    except ValueError:
        yield Mistake("channel", f"{entry.channel!r:.200} is no channel: write plugin:author/name/channel")
    if entry.agent == "":
        yield Mistake("agent", "is empty: leave it out, or name one")
    yield from _mistakes_of_agent_events(entry.agent_events)
    for field in ("allow", "block"):
        access: ChannelAccess = getattr(entry, field)
        for kind in ("people", "chats"):
            yield from _mistakes_of_ids(f"{field}.{kind}", getattr(access, kind))
    yield from _mistakes_of_roles(entry.roles)
    for name, value in entry.config.items():
        if is_reference(value) and (wrong := reference_mistake(value)) is not None:
            yield Mistake(key_place("config", name), wrong)


def _mistakes_of_agent_events(patterns: list[str]) -> Iterator[Mistake]:
    for number, pattern in enumerate(patterns):
        known = any(matches(pattern, name) for name in CHANNEL_EVENT_TYPES)
        if not known and not pattern.startswith("platform."):
            hint = did_you_mean(pattern, CHANNEL_EVENT_TYPES)
            yield Mistake(f"agent_events[{number}]", f"{pattern!r:.80} is no event of channels: {hint}")


def _mistakes_of_roles(roles: dict[str, list[str]]) -> Iterator[Mistake]:
    if len(roles) > MAX_ROLES:
        yield Mistake("roles", f"has {len(roles):,} roles; at most {MAX_ROLES} may be")
    for role, people in list(roles.items())[:MAX_ROLES]:
        place = key_place("roles", role)
        if not role or role != role.strip() or len(role) > MAX_ROLE_CHARS:
            yield Mistake(place, f"is no role: 1 to {MAX_ROLE_CHARS} characters, no spaces around them")
        yield from _mistakes_of_ids(place, people)


def _mistakes_of_ids(place: str, listed: list[str]) -> Iterator[Mistake]:
    if len(listed) > MAX_LISTED:
        yield Mistake(place, f"lists {len(listed):,}; at most {MAX_LISTED:,} may be")
    for number, name in enumerate(listed[:MAX_LISTED]):
        if not name or len(name) > 512:
            yield Mistake(f"{place}[{number}]", "is no id: 1 to 512 characters are expected")


def written_secret_mistakes(form: list[FormItem], entry: ChannelEntry) -> Iterator[Mistake]:
    """Yield a mistake for each secret that is written out: the entry is stored, and everybody reads it."""
    for item in form:
        value = entry.config.get(item.name)
        if item.kind == "secret" and isinstance(value, str) and value and not is_reference(value):
            text = "this secret is named by env:NAME, file:PATH or secret://NAME, never written out"
            yield Mistake(key_place("config", item.name), text)


def file_mistake(entry: ChannelEntry, mime_type: str | None) -> str | None:
    """Return why a file of this type is not taken, or None."""
    if not entry.file_types or any(fnmatchcase(mime_type or "", pattern) for pattern in entry.file_types):
        return None
    return f"files of type {mime_type or 'unknown'!r:.100} are not taken by channel {entry.name}"


def ignored_because(
    entry: ChannelEntry, event: ChannelEvent, account: Person | None
) -> IgnoredBecause | None:
    """Return why an event is left out, or None. What the bot does itself always is."""
    person = event.person
    if person is not None and account is not None and person.person_id == account.person_id:
        return "own"
    if (
        person is not None
        and person.is_bot
        and event.event_type.startswith("message.")
        and not entry.allow_bots
    ):
        return "bot"
    if entry.block.names(event):
        return "blocked"
    restricted = entry.pairing or entry.allow.people or entry.allow.chats
    if restricted and not entry.allow.names(event):
        return "not_allowed"
    return None


def channel_of_subject(subject: str | None) -> str | None:
    """Return the name of the channel that a requester is, or None."""
    if subject is None or not subject.startswith(SUBJECT_PREFIX):
        return None
    return subject.removeprefix(SUBJECT_PREFIX)


def person_name(channel: str, person_id: str) -> str:
    """Return how rules name a person of a channel: `CHANNEL/ID`. Names of channels have no slash."""
    return f"{channel}/{person_id}"


def person_of_key(key_id: str) -> tuple[str, str] | None:
    """Return channel and id of the person who votes under this key id, or None if it is another's."""
    if not key_id.startswith(PERSON_PREFIX):
        return None
    channel, slash, person_id = key_id.removeprefix(PERSON_PREFIX).partition("/")
    return (channel, person_id) if channel and slash and person_id else None


def chat_of(named: str | ChatPlace) -> ChatPlace | None:
    """Return a chat that is named, perhaps as `CHANNEL/CHAT`; None if there can be no such."""
    if isinstance(named, str):
        channel, _, chat_id = named.partition("/")
        named = ChatPlace(channel=channel, chat_id=chat_id)
    ids = [named.chat_id] if named.thread_id is None else [named.chat_id, named.thread_id]
    wrong = any(not 0 < len(one) <= MAX_CHAT_CHARS or "\x00" in one for one in ids)
    return None if wrong or not _NAME.fullmatch(named.channel) else named


def may_speak(entry: ChannelEntry, person_id: str, *, paired: bool = False) -> bool:
    """Whether a person is not shut out of a channel: neither blocked, nor left out of a list of people.

    Everybody in a listed chat may speak there, so that with such a list nobody is left out. `paired`: they
    are bound to a subject, which lets them in where people are paired.
    """
    if person_id in entry.block.people:
        return False
    if entry.pairing and paired:
        return True
    return (
        not (entry.allow.people or entry.pairing)
        or bool(entry.allow.chats)
        or person_id in entry.allow.people
    )


def check_reserved(subject: str) -> None:
    """Refuse a subject that would pass for a channel, or for a person of one. InvalidArgumentError."""
    for prefix, whose in ((SUBJECT_PREFIX, "channels"), (PERSON_PREFIX, "people of channels")):
        if subject.startswith(prefix):
            raise InvalidArgumentError(f"subjects that begin with {prefix} are those of {whose}: use another")


def secret_references(manifest: ChannelManifest, entry: ChannelEntry) -> dict[str, str]:
    """Return the references in fields for secrets, by field: only those are resolved."""
    return {
        item.name: entry.config[item.name]
        for item in manifest.config_schema
        if item.kind == "secret" and is_reference(entry.config.get(item.name))
    }
