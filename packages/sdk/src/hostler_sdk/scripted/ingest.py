"""What a scripted host keeps of its channels: events, states, health and files, answered as a host would."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from hostler_protocol.channels import (
    ChannelEvent,
    IngestCheckParams,
    IngestCheckReply,
    IngestEventParams,
    IngestEventReply,
    IngestFileParams,
    IngestFileReply,
    IngestHealthNote,
    IngestReadParams,
    IngestReadReply,
    IngestStateParams,
)
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError
from hostler_protocol.ids import digest, new_id
from hostler_protocol.methods import NoParams


@dataclass(slots=True)
class ScriptedIngest:
    """The events and files that the channels of a connection delivered.

    An event whose id was delivered before is answered as `duplicate`, and kept once.
    """

    events: list[ChannelEvent] = field(default_factory=list)
    duplicates: list[ChannelEvent] = field(default_factory=list)
    states: dict[str, Any] = field(default_factory=dict)
    """By channel id: the value that it kept last."""
    health: list[IngestHealthNote] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """By artifact id: files that channels stored, and those that messages to be sent refer to."""
    refusals: list[HostlerError] = field(default_factory=list)
    """Errors for the next events, in order; one is taken for each."""
    unwanted: set[str] = field(default_factory=set)
    """Ids of people who are not let in."""
    checked: list[ChannelEvent] = field(default_factory=list)
    """Events that were asked about."""
    notice: str | None = None
    """`notice` of the answers."""
    outcome: str = "started"
    """`outcome` of the answers, but of those to duplicates."""
    _known: set[str] = field(default_factory=set)
    _uploads: dict[str, bytearray] = field(default_factory=dict)

    def health_of(self, channel_id: str) -> IngestHealthNote | None:
        """Return what a channel said last about its connection."""
        return next((note for note in reversed(self.health) if note.channel_id == channel_id), None)

    def answer(self, params: Any) -> Any:
        """Answer a request. Raises HostlerError."""
        match params:
            case IngestEventParams():
                return self._event(params)
            case IngestCheckParams(event=event):
                self.checked.append(event)
                left_out = event.person is not None and event.person.person_id in self.unwanted
                return IngestCheckReply(wanted=not left_out and event.event_id not in self._known)
            case IngestStateParams(channel_id=channel_id, state=state):
                self.states[channel_id] = state
                return NoParams()
            case IngestFileParams():
                return self._file(params)
            case IngestReadParams():
                return self._read(params)
        raise InvalidArgumentError(f"unknown request {type(params).__name__}")

    def _event(self, params: IngestEventParams) -> IngestEventReply:
        if self.refusals:
            raise self.refusals.pop(0)
        event_id = params.event.event_id or digest(params.event)
        known = event_id in self._known
        self._known.add(event_id)
        (self.duplicates if known else self.events).append(params.event)
        self.states[params.channel_id] = params.state
        return IngestEventReply(
            outcome="duplicate" if known else self.outcome, event_id=event_id, notice=self.notice
        )

    def _file(self, params: IngestFileParams) -> IngestFileReply:
        upload_id = params.upload_id or new_id()
        if params.part and upload_id not in self._uploads:
            raise NotFoundError(f"there is no upload {upload_id!r}: begin with part 0")
        content = self._uploads.setdefault(upload_id, bytearray())
        content += base64.b64decode(params.content_base64)
        if not params.last:
            return IngestFileReply(upload_id=upload_id)
        artifact_id = new_id()
        self.files[artifact_id] = bytes(self._uploads.pop(upload_id))
        return IngestFileReply(artifact_id=artifact_id)

    def _read(self, params: IngestReadParams) -> IngestReadReply:
        content = self.files.get(params.artifact_id)
        if content is None:
            raise NotFoundError(f"no message that is being sent has the attachment {params.artifact_id!r}")
        piece = content[params.offset : params.offset + params.limit]
        return IngestReadReply(
            content_base64=base64.b64encode(piece).decode(),
            size_bytes=len(content),
            has_more=params.offset + len(piece) < len(content),
        )
