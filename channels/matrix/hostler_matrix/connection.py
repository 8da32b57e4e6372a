"""One open connection to a homeserver: receive with `/sync`, accept invitations, deliver."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from nio import Api

from hostler_matrix.actions import Actions
from hostler_matrix.channel import ENCRYPTED_TEXT
from hostler_matrix.events import Events, is_readable
from hostler_matrix.home_server import TOKEN_ERRORS, HomeServer, Refused
from hostler_matrix.invitations import Invitations, invitation_event
from hostler_matrix.messages import Drafted, FileOf, Me
from hostler_matrix.position import Position
from hostler_matrix.rooms import Rooms, text_in
from hostler_matrix.sender import Sender
from hostler_matrix.timeline import FILTER, FIRST_FILTER, Timelines, listed, objects_in
from hostler_sdk.channels import (
    ChannelConnection,
    ChannelEvent,
    IngestEventReply,
    NotSent,
    Person,
    UnclearError,
)
from hostler_sdk.channels.attachments import FileUnavailableError, RemoteFile
from hostler_sdk.channels.delivery import Delivery, file_bounds

if TYPE_CHECKING:
    from hostler_matrix.channel import Matrix

POLL_SECONDS = 25
"""How long the homeserver keeps `/sync` open when there is nothing new."""
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Waits before the homeserver is asked again after it could not be reached."""

logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender
    actions: Actions

    def __init__(self, channel: Matrix) -> None:
        settings = channel.settings
        self._channel = channel
        self._prefix = str(settings.get("command-prefix", "!"))
        self._encrypted_text = str(settings.get("encrypted-text", ENCRYPTED_TEXT))
        self._accepts = settings.get("invites", "accept") == "accept"
        self._delivery = Delivery(channel, file_bounds(settings), kept=())
        self._server = HomeServer(str(settings.get("homeserver", "")), str(settings.get("access-token", "")))
        self._rooms = Rooms(self._server)
        msgtype = "m.text" if settings.get("send-as") == "text" else "m.notice"
        self.sender = Sender(self._server, channel, self._rooms, msgtype=msgtype)
        self.actions = Actions(self._server, self.sender, self._rooms)
        self._position = Position.of(channel.state)
        self._invitations = Invitations(self._server, self._position)
        self._me: Me | None = None

    async def open(self) -> Person:
        """Ask whose the access token is, and where a new channel begins. Raises ConnectionError.

        What is said once the channel is connected comes after that place.
        """
        await self._server.open()
        user_id = text_in(await self._server.call(Api.whoami("")), "user_id")
        if user_id is None:
            raise UnclearError("the homeserver does not say whose the access token is")
        self._me = Me(user_id, await self._name(user_id), self._prefix)
        if self._position.since is None:
            await self._take(await self._sync(0))
        self.actions.user_id = self.sender.user_id = user_id
        return Person(person_id=user_id, name=self._me.name, is_bot=True)

    async def _name(self, user_id: str) -> str | None:
        try:
            return text_in(await self._server.call(Api.profile_get_displayname(user_id)), "displayname")
        except Refused as error:
            if not error.final:
                raise
            return None  # an account without a name

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._server.close()

    @property
    def _account(self) -> Me:
        assert self._me is not None, "open comes first"
        return self._me

    # -- syncing ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Receive and deliver until cancelled. A sync of which not all could be read comes again."""
        wait, is_lost = FIRST_WAIT_SECONDS, False
        await self._invitations.accept()
        while True:
            try:
                # once it was lost, an answer at once tells that it is there again
                await self._take(await self._sync(0 if is_lost else POLL_SECONDS))
            except (NotSent, UnclearError) as error:
                if isinstance(error, Refused) and error.errcode in TOKEN_ERRORS:
                    raise ConnectionError(error.message) from None
                self._channel.connecting(str(error))
                is_lost = True
                limit = error.retry_after if isinstance(error, NotSent) else None
                await asyncio.sleep(wait if limit is None else limit)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
                continue
            if is_lost:
                self._channel.connected()
            wait, is_lost = FIRST_WAIT_SECONDS, False

    async def _sync(self, seconds: int) -> dict[str, Any]:
        """Return what is new since the position, after at most `seconds`; at first, where the bot is."""
        since = self._position.since
        if since is not None:
            request = Api.sync("", since=since, timeout=seconds * 1000, filter=FILTER)
            try:
                return await self._server.call(request, seconds=seconds + 30)
            except Refused as error:
                if not error.final:
                    raise
                await self._lose_position(since, error)
        return await self._server.call(Api.sync("", timeout=0, filter=FIRST_FILTER))

    async def _lose_position(self, since: str, error: Refused) -> None:
        """Begin anew: the homeserver does not know the position any more, as after it was restored."""
        logger.error("the homeserver does not take the position of the channel: %s", error.message)
        event = ChannelEvent(
            event_type="platform.position_lost",
            event_id=f"position_lost:{hashlib.sha256(since.encode()).hexdigest()[:32]}",
            data={"since": since, "reason": error.message},
        )
        await self._deliver(Drafted(event))
        self._position.since = None

    async def _take(self, batch: dict[str, Any]) -> None:
        """Deliver all of a sync, then go past it."""
        following, before = text_in(batch, "next_batch"), self._position.since
        if following is None:
            raise UnclearError("the homeserver answered a sync without the position after it")
        rooms = batch.get("rooms")
        for room_id, invitation in objects_in(rooms, "invite"):
            reply = await self._deliver(Drafted(invitation_event(room_id, invitation, self._account, before)))
            if self._accepts and reply.outcome != "ignored":  # those whom the channel's lists keep out
                self._position.join(room_id)
        timelines = Timelines(self._server, self._account, before)
        for kind in ("join", "leave"):
            for room_id, room in objects_in(rooms, kind):
                if before is not None:
                    await self._room(room_id, room, timelines, is_left=kind == "leave")
        self._position.since = following
        await self._invitations.accept()
        if (state := self._position.state()) != self._channel.state:
            await self._channel.keep(state)

    async def _deliver(self, draft: Drafted) -> IngestEventReply:
        files = [self._remote(file) for file in draft.files]
        return await self._delivery.deliver(draft.event, files)

    def _remote(self, file: FileOf) -> RemoteFile:
        return RemoteFile(lambda: self._content(file), file.name, file.mime_type, file.size_bytes)

    async def _content(self, file: FileOf) -> AsyncIterator[bytes]:
        if file.uri is None:
            raise FileUnavailableError("it is encrypted, or has no address", final=True)
        async for piece in self._server.download(file.uri):
            yield piece

    async def _room(self, room_id: str, room: dict[str, Any], timelines: Timelines, *, is_left: bool) -> None:
        """Deliver what happened in a room, in order."""
        self._rooms.note_summary(room_id, room.get("summary"))
        for event in listed(room, "state", "events"):
            if isinstance(event, dict):
                self._rooms.note_state(room_id, event, is_news=False)
        found = await timelines.events(room_id, room)
        if found.is_limited:
            self._rooms.note_gap(room_id)
        if found.missed is not None:
            await self._deliver(Drafted(found.missed))
        for event in found.events:
            if is_readable(event):
                self._rooms.note_state(room_id, event, is_news=True)
            await self._event(room_id, event, is_left=is_left)
        if is_left:
            self._rooms.forget(room_id)

    async def _event(self, room_id: str, event: Any, *, is_left: bool) -> None:
        # of a room that the bot has left the homeserver says nothing more
        known = self._rooms.of(room_id) if is_left else await self._rooms.in_sync(room_id)
        draft = await Events(self._rooms, self._account).read(room_id, event, known)
        if draft is None:
            return
        reply = await self._deliver(draft)
        if draft.event.source_event_type == "m.room.encrypted" and reply.outcome != "ignored":
            await self._tell_encrypted(room_id)

    async def _tell_encrypted(self, room_id: str) -> None:
        """Say once in a room that the channel cannot read there: else its people wait in vain."""
        self._rooms.of(room_id).is_encrypted = True
        if not self._encrypted_text or room_id in self._position.told:
            return
        try:
            await self.sender.tell(room_id, self._encrypted_text)
        except (NotSent, UnclearError) as error:
            logger.warning("a room was not told that the channel cannot read there: %s", error)
            if not (isinstance(error, NotSent) and error.final):
                return  # with the next message
        self._position.tell(room_id)
