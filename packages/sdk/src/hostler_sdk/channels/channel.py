"""`Channel`, the base class of channels, and the manifest built from its attributes."""

from __future__ import annotations

import asyncio
import base64
import inspect
import math
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from hostler_protocol.channels import (
    ChannelAbilities,
    ChannelEvent,
    ChannelFound,
    ChannelHealth,
    ChannelManifest,
    ChannelMessage,
    ChannelRequestParams,
    ChannelResponse,
    ChannelTarget,
    IngestCheckParams,
    IngestCheckReply,
    IngestEventParams,
    IngestEventReply,
    IngestFileParams,
    IngestFileReply,
    IngestReadParams,
    IngestReadReply,
    IngestStateParams,
    Person,
)
from hostler_protocol.content import ArtifactRef
from hostler_protocol.json_values import fields_problem
from hostler_protocol.manifest import FormItem
from hostler_sdk.channels.sanitize import sanitized
from hostler_sdk.channels.withheld import without_fields
from hostler_sdk.errors import Cancelled, HostError, writable
from hostler_sdk.runner import ManifestError, Text, describe, form_of

FILE_PART_BYTES = 1024 * 1024
"""One part of a file that is stored or read."""
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
"""Waits before an event is offered again to a host that could not store it."""
EDIT_ACTION = "message.edit"
"""The action that `edit` carries out, where the channel's `act` does not."""
MAX_RETRY_SECONDS = 86_400.0
"""The longest wait that a platform may ask for: a number of any length may stand in a header."""


class NotSent(Exception):  # noqa: N818 - part of the published interface, which has no "Error" at its ends
    """The platform has certainly not got it: raise it in `send`, `edit` and `act`.

    `final`: it never will, as with a chat that does not exist. Otherwise it is tried again, not before
    `retry_after` seconds: of what a platform says, 0 to MAX_RETRY_SECONDS is kept, and nothing of what is no
    number.
    """

    def __init__(self, message: str, *, final: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.final = final
        if retry_after is not None:
            retry_after = None if math.isnan(retry_after) else min(max(retry_after, 0.0), MAX_RETRY_SECONDS)
        self.retry_after = retry_after


class UnclearError(Exception):
    """It is not known whether the platform has got it: `send`, `edit` and `act` may raise it.

    Every error but NotSent means that to the host; this one says it, and the text says why.
    """


class SetupError(Exception):
    """The channel cannot work as it is configured: raise it in `open`. The text says what to change."""


class ChannelWire(Protocol):
    """The host, as an open channel reaches it."""

    async def ask(self, method: str, params: Any) -> Any:
        """Make a request and return its answer. Raises HostError if it is refused."""
        ...

    def tell_health(
        self, channel_id: str, health: ChannelHealth, reason: str, account: Person | None
    ) -> None:
        """Send `ingest/health`."""
        ...


class Channel:
    """Base class of channels. One instance serves one configured account, from its opening to its end.

    Override `open`, `run` and `send`; the other methods as the abilities say. The docstring of a subclass is
    its label (first line) and description.

        class Shout(Channel):
            \"\"\"Shout, the chat of one room.\"\"\"

            abilities = {"max_message": 500}
            config = [{"name": "token", "type": "secret", "required": True}]

            async def open(self):
                self.client = Client(self.settings["token"])
                return Person(person_id=await self.client.own_id())

            async def run(self):
                async for said in self.client.messages(after=self.state):
                    await self.deliver(event_of(said), state=said.number)

            async def send(self, target, message, *, key, attempt):
                return await self.client.say(message.text)
    """

    label: ClassVar[Text | None] = None
    """Overrides the first line of the docstring."""
    description: ClassVar[Text | None] = None
    """Overrides the rest of the docstring."""
    abilities: ClassVar[Mapping[str, Any]] = {}
    """What the platform can do: fields of `ChannelAbilities`, like `{"edit": True, "max_message": 4096}`."""
    actions: ClassVar[Collection[str]] = ()
    """The platform actions that `act` carries out, like `{"message.react"}`. With the ability `edit`, `edit`
    carries `message.edit` out, unless it is one of them."""
    withheld: ClassVar[Collection[str]] = ()
    """Fields of what the platform sends that no event's data and no result of an action carries, such as
    tokens and addresses of files: the ends of their paths, like `{"files/url_*"}`. `*`: any characters."""
    config: ClassVar[Sequence[Mapping[str, Any] | FormItem]] = ()
    """The form of a configured channel: items with `name`, `type` and so on. The values: `self.settings`."""

    def __init__(self, channel_id: str, config: dict[str, Any], state: Any, wire: ChannelWire) -> None:
        """The SDK builds it. Set up what you need in `open`."""
        self.channel_id = channel_id
        self.settings = config
        """The values of the form `config`."""
        self.state = state
        """What was kept last, with `deliver` or `keep`; None at first."""
        self._wire = wire

    # -- to be overridden ------------------------------------------------------------------------

    async def open(self) -> Person | None:
        """Connect to the platform; return the bot's own account. It is called again after a failure.

        An exception is told to the operator, and tried again after a while.
        """
        return None

    async def run(self) -> None:
        """Receive and `deliver` the platform's events until cancelled. By default nothing: a channel whose
        platform calls it (`request`) needs no loop.

        If it returns or raises, the channel is closed and opened again after a while.
        """
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Let go of what `open` made. It is called after each `open`, also one that failed."""

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message, and return its id on the platform, or None if it gives none.

        `key` is the same for each attempt at one message: give it to the platform where that takes a key.
        Raise NotSent if the platform has certainly not got it. Any other exception, and a timeout, means
        that it may have been sent; the ability `repeat` says how that is settled.
        """
        raise NotImplementedError(f"{type(self).__name__} has no send method")

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool
    ) -> None:
        """Replace a message that was sent. Needed with the ability `edit`. Raise NotSent as in `send`."""
        raise NotImplementedError(f"{type(self).__name__} has no edit method")

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look whether the message with this key was sent. Needed with `repeat: look_up`."""
        raise NotImplementedError(f"{type(self).__name__} has no find method")

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out a platform action of `actions`; return its result as JSON. Raise NotSent as in `send`."""
        raise NotImplementedError(f"{type(self).__name__} has no act method")

    async def request(self, request: ChannelRequestParams) -> ChannelResponse:
        """Answer an HTTP request of the platform. Needed with the ability `webhook`.

        Verify that the platform made it, and `deliver` its events before the answer.
        """
        raise NotImplementedError(f"{type(self).__name__} has no request method")

    # -- to be used ------------------------------------------------------------------------------

    async def deliver(self, event: ChannelEvent, *, state: Any = msgspec.UNSET) -> IngestEventReply:
        """Deliver an event. When this returns, it is durable and may be acknowledged to the platform.

        `state` is kept once the event is durable, for the next `open`. While the host cannot store the event,
        this waits and offers it again; other refusals raise HostError. An event that was delivered before
        (same `event_id`) starts nothing and answers `duplicate`. What JSON cannot carry of it, as half a
        character, is replaced; fields of `withheld` are left out of its data.
        """
        kept = self.state if state is msgspec.UNSET else state
        params = IngestEventParams(channel_id=self.channel_id, event=self._shown(event), state=kept)
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                reply: IngestEventReply = await self._wire.ask("ingest/event", params)
            except HostError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(float(error.details.get("retry_after", wait)))
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            else:
                self.state = kept
                return reply

    async def wants(self, event: ChannelEvent) -> bool:
        """Ask whether the host takes an event, before its files are fetched: False if it comes from somebody
        who is not let in, or was delivered before. Deliver it in any case. Raises Cancelled.
        """
        params = IngestCheckParams(channel_id=self.channel_id, event=self._shown(event))
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                reply: IngestCheckReply = await self._wire.ask("ingest/check", params)
            except Cancelled:
                raise
            except HostError as error:
                if not error.retryable:
                    return True  # as from a host that cannot be asked: it decides when the event is delivered
                await asyncio.sleep(float(error.details.get("retry_after", wait)))
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            else:
                return reply.wanted

    def _shown(self, event: ChannelEvent) -> ChannelEvent:
        """Return an event as the host may have it."""
        event = sanitized(event)
        return msgspec.structs.replace(event, data=without_fields(event.data, self.withheld))

    async def keep(self, state: Any) -> None:
        """Keep a JSON value for the next `open`, such as a poll offset. Raises HostError."""
        await self._wire.ask("ingest/state", IngestStateParams(channel_id=self.channel_id, state=state))
        self.state = state

    async def store(
        self, content: bytes | AsyncIterator[bytes], *, name: str | None = None, mime_type: str | None = None
    ) -> ArtifactRef:
        """Store a file that somebody sent, for `attachments` of an event. Raises HostError, as over a limit.

        Fetch it from the platform with the bot's credentials: a runner never gets a platform's URL.
        """
        name, mime_type = (None if text is None else writable(text) for text in (name, mime_type))
        upload_id: str | None = None
        size = part = 0
        async for piece, last in _parts(content):
            size += len(piece)
            reply: IngestFileReply = await self._wire.ask(
                "ingest/file",
                IngestFileParams(
                    channel_id=self.channel_id,
                    part=part,
                    content_base64=base64.b64encode(piece).decode(),
                    last=last,
                    upload_id=upload_id,
                    name=name,
                    mime_type=mime_type,
                ),
            )
            upload_id, part = reply.upload_id, part + 1
        return ArtifactRef(
            artifact_id=reply.artifact_id or "", name=name, mime_type=mime_type, size_bytes=size
        )

    async def read(self, attachment: ArtifactRef) -> AsyncIterator[bytes]:
        """Read an attachment of a message that is being sent, in pieces, before any of it is sent.

        Raises NotSent if the host does not give it.
        """
        offset, more = 0, True
        while more:
            params = IngestReadParams(
                channel_id=self.channel_id,
                artifact_id=attachment.artifact_id,
                offset=offset,
                limit=FILE_PART_BYTES,
            )
            try:
                reply: IngestReadReply = await self._wire.ask("ingest/read", params)
            except HostError as error:
                raise NotSent(f"attachment: {error.message}", final=not error.retryable) from error
            piece = base64.b64decode(reply.content_base64)
            offset, more = offset + len(piece), reply.has_more
            yield piece

    def connected(self, account: Person | None = None) -> None:
        """Tell the operator that the connection stands again. After `open` the SDK does it."""
        self._wire.tell_health(self.channel_id, "connected", "", account)

    def connecting(self, reason: str) -> None:
        """Tell the operator that the connection is lost and being made again, and why."""
        self._wire.tell_health(self.channel_id, "connecting", reason, None)


def channel_manifest(kind: type[Channel], name: str) -> ChannelManifest:
    """Build a channel's manifest. Raises ManifestError if an attribute is invalid or a method is missing."""
    label, description = describe(kind, kind.label, kind.description)
    try:
        abilities = msgspec.convert(dict(kind.abilities), ChannelAbilities)
    except msgspec.ValidationError as error:
        raise ManifestError(f"abilities: {error}") from error
    needed = {
        "edit": (abilities.edit, "the ability `edit`"),
        "find": (abilities.repeat == "look_up", "`repeat: look_up`"),
        "request": (abilities.webhook, "the ability `webhook`"),
        "act": (bool(kind.actions), "`actions`"),
        "send": (True, "a channel"),
    }
    for method, (is_needed, by) in needed.items():
        if is_needed and getattr(kind, method) is getattr(Channel, method):
            raise ManifestError(f"{kind.__name__} has no method {method}, which {by} needs")
    for method in ("open", "run", "close", *needed):
        if not inspect.iscoroutinefunction(getattr(kind, method)):
            raise ManifestError(f"{kind.__name__}.{method} must be an `async def`")
    manifest = ChannelManifest(
        name=name,
        label=label,
        description=description,
        abilities=abilities,
        actions=sorted({*kind.actions, EDIT_ACTION} if abilities.edit else kind.actions),
        config_schema=form_of(kind.config),
    )
    problem = fields_problem(msgspec.structs.asdict(manifest))
    if problem is not None:
        raise ManifestError(f"{kind.__name__}: {problem}")
    return manifest


async def _parts(content: bytes | AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield parts of at most FILE_PART_BYTES, and whether each is the last; an empty file is one part."""
    waiting = bytearray(content if isinstance(content, bytes) else b"")
    if not isinstance(content, bytes):
        async for piece in content:
            waiting += piece
            while len(waiting) > FILE_PART_BYTES:
                yield bytes(waiting[:FILE_PART_BYTES]), False
                del waiting[:FILE_PART_BYTES]
    while len(waiting) > FILE_PART_BYTES:
        yield bytes(waiting[:FILE_PART_BYTES]), False
        del waiting[:FILE_PART_BYTES]
    yield bytes(waiting), True
