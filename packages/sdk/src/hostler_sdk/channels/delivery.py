"""Deliver events with their files; what the host refuses for good, without what it may have refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from hostler_protocol.channels import ChannelEvent, IngestEventReply
from hostler_sdk.channels.attachments import MIB, FileBounds, RemoteFile, fetch
from hostler_sdk.channels.channel import Channel, SetupError
from hostler_sdk.errors import Cancelled, HostError

MAX_FILE_MIB = 100

logger = logging.getLogger(__name__)


class Delivery:
    """Delivers the events of one channel.

    `bounds`: of the files that are fetched. `kept`: names in an event's data without which it would mean
    nothing, such as the `value` of a press; they are kept when the rest of the data is left out.
    """

    def __init__(
        self, channel: Channel, bounds: FileBounds | None = None, *, kept: Collection[str] = ("value",)
    ) -> None:
        self._channel = channel
        self._bounds = FileBounds() if bounds is None else bounds
        self._kept = kept

    async def deliver(
        self,
        event: ChannelEvent,
        files: Iterable[RemoteFile] = (),
        *,
        state: Any | Callable[[], Any] = msgspec.UNSET,
    ) -> IngestEventReply:
        """Fetch the files of an event, and deliver it with them. Files that cannot be had are named in
        `missing_files` of its data.

        `state` as for `Channel.deliver`, or a function that returns it: it is called once the files are
        there. An event that the host refuses for good comes once more without data and files; if that is
        refused, too, the log has its id and the reply is `refused`: it must not hold up all others. Raises
        HostError only if the host is gone or asks to be asked again.
        """
        event = await self._with_files(event, list(files))
        try:
            return await self._channel.deliver(event, state=_value_of(state))
        except HostError as error:
            _raise_if_gone(error)
            return await self._bare(event, error, state)

    async def _bare(self, event: ChannelEvent, refusal: HostError, state: Any) -> IngestEventReply:
        logger.error("event %s was refused, and is delivered bare: %s", event.event_id, refusal.message)
        kept = {name: event.data[name] for name in self._kept if name in event.data}
        bare = msgspec.structs.replace(event, data={**kept, "left_out": refusal.message}, attachments=[])
        try:
            return await self._channel.deliver(bare, state=_value_of(state))
        except HostError as error:
            _raise_if_gone(error)
            logger.error("event %s is lost: the host refused it: %s", bare.event_id, error.message)
            if (following := _value_of(state)) is not msgspec.UNSET:
                await self._channel.keep(following)
            return IngestEventReply(outcome="refused")

    async def _with_files(self, event: ChannelEvent, files: list[RemoteFile]) -> ChannelEvent:
        if not files:
            return event
        fetched = await fetch(self._channel, files, self._bounds, event=event)
        missing = {"missing_files": fetched.missing} if fetched.missing else {}
        return msgspec.structs.replace(event, attachments=fetched.attachments, data={**event.data, **missing})


def file_bounds(settings: Mapping[str, Any], name: str = "max-file-mib", *, default: int = 20) -> FileBounds:
    """Return the bounds of files by a setting: a number of MiB from 0 to MAX_FILE_MIB. Raises SetupError."""
    mib = settings.get(name, default)
    if isinstance(mib, bool) or not isinstance(mib, int) or not 0 <= mib <= MAX_FILE_MIB:
        raise SetupError(f"`{name}` must be a number from 0 to {MAX_FILE_MIB}")
    return FileBounds(bytes_each=mib * MIB)


def _value_of(state: Any) -> Any:
    return state() if callable(state) else state


def _raise_if_gone(error: HostError) -> None:
    """Raise the error again unless the host is there and will never take the event."""
    if error.retryable or isinstance(error, Cancelled):
        raise error
