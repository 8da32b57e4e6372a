"""Channels of plugins: connections to the accounts of a chat platform.

The host opens a configured channel and sends messages through it (`channel/*`). The plugin delivers the
platform's events (`ingest/*`); the answer to one means that the event is durable, so that the plugin may then
acknowledge it to the platform. Ids of the platform are texts, whatever they are there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from hostler_protocol._base import Lenient, Sparse, Strict
from hostler_protocol.content import ArtifactRef
from hostler_protocol.events import Subject
from hostler_protocol.limits import DEFAULT_ARTIFACT_READ_BYTES, MAX_INTEGER, Count
from hostler_protocol.manifest import FormItem, Locale

MessageUnit = Literal["characters", "utf16", "bytes"]
"""How a platform counts the length of a message: Unicode characters, UTF-16 code units, or bytes of UTF-8."""
Repeat = Literal["client_id", "look_up", "unknown"]
"""How a message is settled of which it is not known whether the platform got it. `client_id`: the platform
accepts a key of ours once, so it is sent again. `look_up`: the plugin can look whether it is there.
`unknown`: there is no way to know."""
ChatKind = Literal["private", "group", "broadcast"]
Addressed = Literal["private", "mention", "reply", "prefix", "command"]
"""How a message called the bot."""
ChannelHealth = Literal["connecting", "connected", "failed"]
ButtonStyle = Literal["default", "primary", "danger"]

PlatformId = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
"""An id that a platform gave: of a person, a chat, a message or an event."""
PositiveCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]


class ChannelAbilities(Strict):
    """What a channel's platform can do; the host does the rest in another way.

    `max_message`: the longest message, in `message_unit`. `edit_seconds`: the shortest time between two edits
    of one message. `webhook`: the platform calls an address of the host, whose requests the host passes on.
    """

    edit: bool = False
    typing: bool = False
    reactions: bool = False
    buttons: bool = False
    threads: bool = False
    files: bool = False
    webhook: bool = False
    repeat: Repeat = "unknown"
    max_message: PositiveCount = 4_000
    message_unit: MessageUnit = "characters"
    edit_seconds: Annotated[float, msgspec.Meta(ge=0.0, le=3_600.0)] = 1.0


class ChannelManifest(Strict):
    """One channel of a plugin. `actions`: the platform actions that it carries out, by name.

    `config_schema` is the form of a configured channel, as that of a runner.
    """

    name: str
    label: dict[Locale, str]
    description: dict[Locale, str] | str | None = None
    abilities: ChannelAbilities = ChannelAbilities()
    actions: list[str] = []
    config_schema: list[FormItem] = []


class ChannelList(Strict):
    """The answer to `channels/list`. Entries are undecoded, so that an invalid one does not hide others."""

    channels: list[msgspec.Raw]


class ChannelOpenParams(Lenient):
    """`channel/open`: connect to the platform, and receive its events from now on. Answered at once.

    `channel_id` names the configured channel in all further messages; `channel` is the manifest's name.
    `state`: what the plugin sent last with `ingest/state` or `ingest/event`, such as a poll offset.
    """

    channel_id: str
    channel: str
    config: dict[str, Any] = {}
    state: Any = None


class ChannelCloseParams(Lenient):
    """`channel/close`: receive nothing more. Answered once nothing of the channel is at work any more."""

    channel_id: str


class ChannelTarget(Lenient):
    """Where a message goes. `reply_to`: the message that it answers."""

    chat_id: PlatformId
    thread_id: PlatformId | None = None
    reply_to: PlatformId | None = None


class Button(Sparse):
    """A button below a message. A press comes back as `interaction.submitted`, with `value` in its data."""

    label: str
    value: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    style: ButtonStyle = "default"


class ChannelMessage(Lenient):
    """A message to be sent. `text` is Markdown, at most as long as the abilities allow.

    `attachments` are read with `ingest/read`. `plain`: the text is no Markdown and is shown as it stands.
    """

    text: str = ""
    buttons: list[list[Button]] = []
    attachments: list[ArtifactRef] = []
    plain: bool = False


class ChannelSendParams(Lenient):
    """`channel/send`: send a message. `key` is the same however often it is sent; `attempt` counts from 1.

    An error means that the platform has not got the message: with `retryable` it is sent again later, of
    `rate_limited` after `retry_after`; any other error is final.
    """

    channel_id: str
    key: str
    target: ChannelTarget
    message: ChannelMessage
    attempt: PositiveCount = 1


class ChannelSent(Lenient):
    """What became of a message. `in_doubt`: it may have been sent; the host settles that by `repeat`.

    `reason`: why it is in doubt, for the operator.
    """

    message_id: PlatformId | None = None
    in_doubt: bool = False
    reason: str = ""


class ChannelFindParams(Lenient):
    """`channel/find`: look whether the message with this key has been sent. Only with `repeat: look_up`."""

    channel_id: str
    key: str
    target: ChannelTarget
    message: ChannelMessage
    since: float
    """When it was first sent, in UTC epoch seconds."""


class ChannelFound(Lenient):
    """Whether the message is there; `found` is null if that cannot be told."""

    found: bool | None = None
    message_id: PlatformId | None = None


class ChannelEditParams(Lenient):
    """`channel/edit`: replace a message that was sent. `last`: no further edit of it is expected soon."""

    channel_id: str
    target: ChannelTarget
    message_id: PlatformId
    message: ChannelMessage
    last: bool = True


class ChannelActParams(Lenient):
    """`channel/act`: carry out a platform action of the manifest. `key` is the same however often it is sent.

    Errors mean that nothing was done.
    """

    channel_id: str
    action: str
    key: str
    target: dict[str, Any] = {}
    payload: dict[str, Any] = {}


class ChannelActed(Lenient):
    """The result of an action. `in_doubt`: it may have been carried out; `reason`: why that is not known."""

    result: Any = None
    in_doubt: bool = False
    reason: str = ""


class ChannelRequestParams(Lenient):
    """`channel/request`: an HTTP request of the platform to the channel's address. Header names in lower
    case. `path`: what comes after the address, as `events`; "": nothing does."""

    channel_id: str
    method: str
    path: str = ""
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    body_base64: str = ""


class ChannelResponse(Lenient):
    """The answer to the platform's HTTP request."""

    status: Annotated[int, msgspec.Meta(ge=200, le=599)] = 200
    headers: dict[str, str] = {}
    body_base64: str = ""


class Person(Lenient):
    """Somebody on the platform, as the platform states it."""

    person_id: PlatformId
    name: str | None = None
    is_bot: bool = False


class Chat(Lenient):
    """A chat on the platform."""

    chat_id: PlatformId
    kind: ChatKind = "private"
    title: str | None = None
    thread_id: PlatformId | None = None


class ChannelEvent(Lenient):
    """Something that happened on the platform.

    `event_type`: a common type like `message.received`, or `platform.<name>` for what has none.
    `event_id`: the platform's own; without it the host derives one from the other ids and the time.
    `attachments` were stored with `ingest/file` before. A press of a button is `interaction.submitted` with
    `value` of the button in `data`, and `message_id` of its message.
    """

    event_type: str
    event_id: PlatformId | None = None
    source_event_type: str | None = None
    event_time: float | None = None
    chat: Chat | None = None
    person: Person | None = None
    subject: Subject | None = None
    message_id: PlatformId | None = None
    reply_to: PlatformId | None = None
    text: str | None = None
    attachments: list[ArtifactRef] = []
    addressed: list[Addressed] = []
    data: dict[str, Any] = {}


class IngestEventParams(Lenient):
    """`ingest/event`: deliver an event. `state` replaces the channel's state once the event is durable."""

    channel_id: str
    event: ChannelEvent
    state: Any = None


class IngestEventReply(Lenient):
    """What became of an event; it is durable.

    `outcome`: of its run (`started`, `queued`, `steered`, `rejected`, `unrouted`), or `duplicate` if it was
    delivered before, `ignored` if the channel's rules leave it out, `decided` if it was a decision.
    `notice`: a text for the person alone, as to whom pressed a button.
    """

    outcome: str
    event_id: str | None = None
    notice: str | None = None


class IngestCheckParams(Lenient):
    """`ingest/check`: ask whether an event is wanted, before its files are fetched. `event`: what is known by
    then, with the `event_id` that it will be delivered with.
    """

    channel_id: str
    event: ChannelEvent


class IngestCheckReply(Lenient):
    """`wanted`: it would be let in, and was not delivered yet. If not, deliver it without its files."""

    wanted: bool


class IngestStateParams(Lenient):
    """`ingest/state`: keep a value for the next `channel/open`, such as a poll offset. At most 64 KiB."""

    channel_id: str
    state: Any = None


class IngestHealthNote(Lenient):
    """`ingest/health`: how the connection to the platform stands. `account`: the bot's own id and name."""

    channel_id: str
    health: ChannelHealth
    reason: str = ""
    account: Person | None = None


class IngestFileParams(Lenient):
    """`ingest/file`: store a file in parts; `part` counts from 0. Metadata is read of the last part."""

    channel_id: str
    part: Count
    content_base64: str
    last: bool
    upload_id: str | None = None
    mime_type: str | None = None
    name: str | None = None


class IngestFileReply(Sparse):
    """`upload_id` is sent with the next part; `artifact_id` answers the last one."""

    upload_id: str | None = None
    artifact_id: str | None = None


class IngestReadParams(Lenient):
    """`ingest/read`: `limit` bytes from `offset` of an attachment of a message that is being sent."""

    channel_id: str
    artifact_id: str
    offset: Count = 0
    limit: Count = DEFAULT_ARTIFACT_READ_BYTES


class IngestReadReply(Lenient):
    """One range of an attachment."""

    content_base64: str
    size_bytes: Count
    has_more: bool
